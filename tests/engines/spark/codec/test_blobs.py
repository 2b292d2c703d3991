"""Blobs of an outbox: they are as they were, or it is said that they are not."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.codec.blobs import BlobFile, read_blob
from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.errors import StateError
from tests.engines.applications import drawn_events, paper_application
from tests.engines.spark.runs import locally, on_spark, with_files

LARGE = 100


def _payload(size, seed=0):
    return pa.py_buffer(np.random.default_rng(seed).bytes(size))


def _octets(payload):
    return pa.py_buffer(payload).to_pybytes()


@given(st.lists(st.integers(0, 3 * LARGE), max_size=6))
def test_a_payload_is_what_it_was(sizes):
    """Small or large, written side by side; without a large one there is no file."""
    with tempfile.TemporaryDirectory() as folder:
        payloads = [_payload(size, seed) for seed, size in enumerate(sizes)]
        with (
            closing(BlobFile(Path(folder) / "blobs", LARGE)) as file,
            ThreadPoolExecutor(4) as threads,
        ):
            references = list(threads.map(file.put, payloads))
        for reference, payload in zip(references, payloads, strict=True):
            assert _octets(read_blob(reference)) == payload.to_pybytes()
            assert (reference == payload.to_pybytes()) == (payload.size < LARGE)
        written = list(Path(folder).glob("blobs/*"))
        assert len(written) == any(size >= LARGE for size in sizes)


@given(st.integers(LARGE, 2 * LARGE), st.data())
def test_a_damaged_blob_is_found_out(size, data):
    """Changed anywhere, cut off anywhere, or not there."""
    with tempfile.TemporaryDirectory() as folder:
        with closing(BlobFile(Path(folder), LARGE)) as file:
            references = [file.put(_payload(size, seed)) for seed in range(2)]
        (path,) = Path(folder).iterdir()
        good = path.read_bytes()
        place = data.draw(st.integers(size, 2 * size - 1))
        changed = bytes([good[place] ^ data.draw(st.integers(1, 255))])
        for bad in (good[:place], good[:place] + changed + good[place + 1 :]):
            path.write_bytes(bad)
            assert _octets(read_blob(references[0])) == good[:size]
            with pytest.raises(StateError, match=f"{path.name} is damaged; put it back"):
                read_blob(references[1])
        path.unlink()
        with pytest.raises(StateError, match=r"cannot be read \(No such file"):
            read_blob(references[0])


@pytest.mark.spark
def test_what_is_found_is_read_from_files(spark, tmp_path, monkeypatch):
    """By other nodes, and by whoever asks for what is in the sinks; a lost one is named."""
    monkeypatch.setattr(node_query, "MIN_BLOB_BYTES", 1)
    tables = {f"s{i}": drawn_events(20, 20, i) for i in (1, 2)}
    application = with_files(paper_application(), tables, tmp_path, [150])

    assert on_spark(spark, application, tmp_path) == locally(application, tables)

    for name in application.nodes:
        assert list((tmp_path / "run" / name / "blobs").iterdir()), name
    for path in (tmp_path / "run" / "core" / "blobs").iterdir():
        path.unlink()
    with pytest.raises(StateError, match=r"core/blobs/\w+ cannot be read .*; put it back"):
        run_on_spark(application, spark, checkpoint=str(tmp_path / "run"), deliver=True)
