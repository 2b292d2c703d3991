"""Why a pattern did not match: the nearest candidates, and what stopped them."""
