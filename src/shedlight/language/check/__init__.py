"""What patterns must obey, and what is odd about them."""
