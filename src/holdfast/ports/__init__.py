"""What the engine needs from the outside, each as a Protocol with its promises.

A promise written here is tested by the contract suites in `holdfast.testing`, over every implementation.
"""

from holdfast.ports.blobs import Archive, Blobs, Images
from holdfast.ports.model import Clock, Delta, Model, Progress, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.ports.store import (
    Admission,
    Archived,
    Examined,
    Feed,
    Hit,
    Lease,
    Quarantined,
    Segment,
    SessionInfo,
    Snapshot,
    Store,
)
from holdfast.ports.tools import Attachment, SessionTool, Tool

__all__ = [
    "Admission",
    "Archive",
    "Archived",
    "Attachment",
    "Blobs",
    "Clock",
    "Delta",
    "Examined",
    "Feed",
    "Hit",
    "Images",
    "Lease",
    "Model",
    "Progress",
    "Quarantined",
    "ReasoningDelta",
    "Segment",
    "SessionInfo",
    "SessionTool",
    "Snapshot",
    "Store",
    "TextDelta",
    "Tool",
    "ToolCallDelta",
]
