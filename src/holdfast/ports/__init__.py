"""Ports: Protocols for everything outside the engine.

The contract suites in `holdfast.testing` test the promises of each port over every implementation.
"""

from holdfast.ports.blobs import Archive, Blobs, Images
from holdfast.ports.model import Clock, Delta, Model, Progress, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.ports.store import (
    Admission,
    BlobRefs,
    Feed,
    Hit,
    Lease,
    Log,
    Maintenance,
    Quarantined,
    RowCheck,
    SealedRows,
    SearchIndex,
    Segment,
    SessionAdmin,
    SessionInfo,
    Snapshot,
    Snapshots,
    Store,
)
from holdfast.ports.tools import Attachment, SessionTool, Tool

__all__ = [
    "Admission",
    "Archive",
    "Attachment",
    "BlobRefs",
    "Blobs",
    "Clock",
    "Delta",
    "Feed",
    "Hit",
    "Images",
    "Lease",
    "Log",
    "Maintenance",
    "Model",
    "Progress",
    "Quarantined",
    "ReasoningDelta",
    "RowCheck",
    "SealedRows",
    "SearchIndex",
    "Segment",
    "SessionAdmin",
    "SessionInfo",
    "SessionTool",
    "Snapshot",
    "Snapshots",
    "Store",
    "TextDelta",
    "Tool",
    "ToolCallDelta",
]
