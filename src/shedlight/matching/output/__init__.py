"""Matches -> complex events."""
