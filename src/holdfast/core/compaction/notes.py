"""The tree of notes: a model's notes on portions of the conversation, merged upwards.

The session keeps the frontier of the tree: consecutive nodes that cover the conversation from its beginning, the root
first. A node is made once, and only a node that covers it replaces it. Old nodes cover more than new ones, in powers of
two where the room allows it, so that no text is rewritten more often than the logarithm of the number of portions.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from holdfast.core.compaction.reading import Position
from holdfast.core.fold.session_state import Piece, Turn
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.outline import cut_at_sentence

# Share of the room that one node may take: four nodes keep their weights in powers of two over many compactions. In a
# small window fewer nodes of this length are better than many of a sentence.
_NODE_SHARE, _NODE_TOKENS_MIN = 4, 400
# Nodes that one request merges: more would be condensed too much at once.
_MERGED_MAX = 8
# Nodes of a session before they are merged without a model, because none gave a usable answer.
NODES_MAX = 64


def node_tokens_max(tokens_max: int) -> int:
    """Return the token limit of one node, if all nodes together have `tokens_max`."""
    return max(tokens_max // _NODE_SHARE, min(tokens_max, _NODE_TOKENS_MIN))


def end_of(nodes: Sequence[Piece]) -> Position:
    """Return the position up to which nodes cover the conversation."""
    return Position(nodes[-1].until, nodes[-1].offset) if nodes else Position()


def frontier(turn: Turn) -> tuple[Piece, ...]:
    """Return the nodes that cover the conversation from its beginning, oldest first.

    Older versions merged everything into one text beside the pieces; it is the root if a piece ends where it ends.
    """
    merged = turn.merged
    if merged is None:
        return turn.pieces
    covered = [piece for piece in turn.pieces if end_of([piece]) <= end_of([merged])]
    if not covered or end_of(covered) != end_of([merged]):
        return turn.pieces
    root = msgspec.structs.replace(merged, level=1, weight=sum(piece.weight for piece in covered))
    return (root, *turn.pieces[len(covered) :])


def reusable(nodes: Sequence[Piece], *, end: int, represented: int, focuses: frozenset[str]) -> tuple[Piece, ...]:
    """Return the nodes that a compaction up to the place `end` can use.

    Notes on messages that the view represents already are used with any focus, later ones only with the current one.
    """
    used: list[Piece] = []
    start = 0
    for node in nodes:
        if start >= end or (node.until > represented and node.focus not in focuses):
            break
        used.append(node)
        start = node.until
    return tuple(used)


class Run(msgspec.Struct, frozen=True):
    """Consecutive nodes to merge, as indices of the first and of the one after the last."""

    first: int
    end: int


def run_to_merge(nodes: Sequence[Piece], *, tokens_max: int, read_max: int | None = None) -> Run | None:
    """Return the nodes to merge next; None if all fit, or no two can be read at once.

    The pair whose older node covers the least compared with the newer one is merged, the newest such pair first, and
    neighbours of its weight with it while there is too much.
    """
    sizes = [tokens_of_text(node.notes) for node in nodes]
    excess = sum(sizes) - tokens_max
    most = sum(sizes) if read_max is None else read_max
    pairs = [
        (older.weight / newer.weight, -place)
        for place, (older, newer) in enumerate(pairwise(nodes))
        if sizes[place] + sizes[place + 1] <= most
    ]
    if excess <= 0 or not pairs:
        return None
    first = -min(pairs)[1]
    run = Run(first, first + 2)
    heaviest = max(node.weight for node in nodes[run.first : run.end])
    while run.end - run.first < _MERGED_MAX and sum(sizes[run.first : run.end]) - node_tokens_max(tokens_max) < excess:
        left = most - sum(sizes[run.first : run.end])
        if _joins(nodes, sizes, run.first - 1, heaviest, left):
            run = Run(run.first - 1, run.end)
        elif _joins(nodes, sizes, run.end, heaviest, left):
            run = Run(run.first, run.end + 1)
        else:
            break
    return run


def _joins(nodes: Sequence[Piece], sizes: Sequence[int], place: int, heaviest: int, left: int) -> bool:
    """Return whether a node can be merged with its neighbours: it exists, is no heavier, and can be read too."""
    return 0 <= place < len(nodes) and nodes[place].weight <= heaviest and sizes[place] <= left


def merged_by_rule(nodes: Sequence[Piece], *, tokens_max: int) -> str:
    """Merge notes without a model: the beginning of each, up to the end of a sentence."""
    share = max(tokens_max // max(len(nodes), 1), 1)
    return "\n\n".join(filter(None, (cut_at_sentence(node.notes, share) for node in nodes)))


_NOT_SHOWN = "(There are notes on #{first} to #{last} that do not fit here; recall(query=...) finds what is in them.)"
_UNREAD = (
    "(No model has read #{first} to #{last} for these notes yet. What the rules below took from there is all; "
    "recall(query=...) finds the rest.)"
)


def story(nodes: Sequence[Piece], *, tokens_max: int, until: int) -> str:
    """Return the notes for the view: the root, the newest nodes that fit, and lines for all that is missing.

    `until` is the place up to which the conversation is represented.
    """
    if not nodes:
        return ""
    last = nodes[-1]
    unread = [_UNREAD.format(first=last.until, last=until - 1)] if last.until + bool(last.offset) < until else []
    return "\n\n".join([*_shown(nodes, tokens_max - sum(map(tokens_of_text, unread))), *unread])


def _shown(nodes: Sequence[Piece], left: int) -> list[str]:
    """Return the texts of the nodes that fit, with a line for those between that do not."""
    starts = [0, *(node.until for node in nodes)]
    texts = [f"#{start} to #{node.until - 1}: {node.notes}" for start, node in zip(starts, nodes, strict=False)]
    if len(nodes) == 1:
        texts = [nodes[0].notes]
    sizes = [tokens_of_text(text) + 2 for text in texts]
    if sum(sizes) <= left:
        return texts
    root = cut_at_sentence(texts[0], max(left, 1))
    left -= tokens_of_text(root) + tokens_of_text(_NOT_SHOWN)
    newest = len(texts)
    while newest > 1 and sizes[newest - 1] <= left:
        newest -= 1
        left -= sizes[newest]
    gap = [_NOT_SHOWN.format(first=starts[1], last=starts[newest] - 1)] if newest > 1 else []
    return [root, *gap, *texts[newest:]]
