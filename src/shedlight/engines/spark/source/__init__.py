"""Any format as a stream with event time; malformed records; arrivals; watermarks."""
