"""The types of an operator: numbers for Spark, labels for everybody else."""

from shedlight.engines.spark.shed.type_catalog import TypeCatalog, type_catalogs
from shedlight.graph import Stream
from shedlight.matching.compile import predicates
from tests.engines.spark.control.test_loop import NODE, World

Q, R = Stream("Q", "w"), Stream("R", "w")


def test_counts_by_number_become_counts_by_label():
    """Types of one label are added up, those without one are others."""
    catalog = TypeCatalog(("", "a", "b", "a"), {Q: (False, True, True, True)})
    assert catalog.count_labels({0: 5, 1: 3, 3: 4}) == {"other": 5, "a": 7}


def test_each_pattern_has_its_relevant_labels():
    """Each label once, in the order of the numbers."""
    flags = {Q: (False, True, False, True), R: (False, True, True, False)}
    catalog = TypeCatalog(("", "a", "b", "a"), flags)
    assert catalog.relevant_labels == {Q: ("a",), R: ("a", "b")}


def test_a_catalog_has_all_types_of_an_operator(tmp_path):
    """Four types and what is none of them, or is null."""
    catalog = World(tmp_path).nodes[NODE].catalogs["w2"]
    assert catalog.is_numbered
    assert [label for label in catalog.labels if label] == [f"type={i}" for i in range(4)]
    assert catalog.relevant_labels[Stream("Q21", "w2")] == ("type=0", "type=1")


def test_too_many_types_have_no_numbers(tmp_path, monkeypatch):
    """Nothing is listed then, and no pattern is known to take any."""
    monkeypatch.setattr(predicates, "MAX_SIGNATURES", 1)
    catalog = type_catalogs([World(tmp_path).chain])["w2"]
    assert not catalog.is_numbered
    assert set(catalog.relevant_labels.values()) == {()}
