"""The folders of a checkpoint.

checkpoint/
    application          the fingerprint of the application
    <node>/query         Spark's checkpoint of the query of a node
    <node>/outbox        what the operators of the node emit
    <node>/blobs         large payloads of the outbox
    <node>/states        large states of shards, whole and what changed since
    <node>/watermarks    the watermarks of sources that the driver sends to shards
    <node>/channel       Spark's checkpoint of the query that writes its channel
    <node>/sender        as who it writes there
    <node>/plan          plans, and the plan that each micro-batch used
    deliveries/<name>    Spark's checkpoint of a delivery to a sink or side output
    <source>.offsets     where the first run began to read a topic of Kafka
    skipped.before       before which arrival events are skipped, if any are
    senders/<node>       as who a node writes that runs elsewhere and is read
    taken                the last plan that was taken of a controller elsewhere
    override.json        bounds and weights changed at run time
    lock                 the process that runs the application

Elsewhere than in a local folder there are no blobs and no large states: workers would have to
reach them. The rows of the outbox and of Spark's state have all that is in them.
"""

from dataclasses import dataclass

from shedlight.engines.spark.support.storage import StoredPath


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The folders that the query of a node reads and writes, next to its outbox."""

    plan: StoredPath
    blobs: StoredPath
    states: StoredPath


@dataclass(frozen=True, slots=True)
class CheckpointPaths:
    """Finds folders below the root of a checkpoint."""

    root: StoredPath

    @property
    def fingerprint(self) -> StoredPath:
        """The file with the fingerprint of the application."""
        return self.root / "application"

    def query(self, node: str) -> StoredPath:
        """Find Spark's checkpoint of the query of a node."""
        return self.root / node / "query"

    def outbox(self, node: str) -> StoredPath:
        """Find the outbox of a node."""
        return self.root / node / "outbox"

    def blobs(self, node: str) -> StoredPath:
        """Find the large payloads of the outbox of a node."""
        return self.root / node / "blobs"

    def states(self, node: str) -> StoredPath:
        """Find the large states of the shards of a node."""
        return self.root / node / "states"

    def watermarks(self, node: str) -> StoredPath:
        """Find the watermark files of a node."""
        return self.root / node / "watermarks"

    def plan(self, node: str) -> StoredPath:
        """Find the plans of a node."""
        return self.root / node / "plan"

    def channel(self, node: str) -> StoredPath:
        """Find Spark's checkpoint of the query that writes the channel of a node."""
        return self.root / node / "channel"

    def sender(self, node: str) -> StoredPath:
        """Find the file that says as who a node writes to its channel."""
        return self.root / node / "sender"

    def sender_of(self, node: str) -> StoredPath:
        """Find the file that says as who a node writes that runs elsewhere."""
        return self.root / "senders" / node

    @property
    def taken(self) -> StoredPath:
        """The file with the last plan that was taken of a controller elsewhere."""
        return self.root / "taken"

    @property
    def skipped_before(self) -> StoredPath:
        """Before which arrival events are skipped, if the first run asked for it."""
        return self.root / "skipped.before"

    def node_folders(self, node: str) -> NodeFolders:
        """Find what the query of a node reads and writes, next to its outbox."""
        return NodeFolders(self.plan(node), self.blobs(node), self.states(node))

    def starting_offsets(self, source: str) -> StoredPath:
        """Find the file that says where the first run began to read a source."""
        return self.root / f"{source}.offsets"

    def delivery(self, name: str) -> StoredPath:
        """Find Spark's checkpoint of a delivery."""
        return self.root / "deliveries" / name
