"""What the outputs of a pattern are called."""


def timed_out_name(pattern: str) -> str:
    """Name what timed out of a pattern; no pattern can be called so."""
    return f"#timed out {pattern}"
