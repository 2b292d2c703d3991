"""What is observed of arrivals."""

from shedlight.engines.spark.source.arrival import read_arrival_stats


def test_a_type_has_a_bin_in_each_partition():
    """Spark does not put bins of the same value together."""
    bins = [{"x": 0.0, "y": 25.0}, {"x": 0.0, "y": 5.0}, {"x": 3.0, "y": 2.0}]

    stats = read_arrival_stats({"number": 32, "latest": 7, "types": bins})

    assert stats.types == {0: 30, 3: 2}
