"""The two original files that golden records name."""

from hashlib import sha256

from holdfast.types.messages import BlobRef

NOTES = "".join(f"Sounding {number:02}: {number % 9 + 3} fathoms, sand.\n" for number in range(1, 41)).encode()
# A valid PNG of two by one pixels.
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000002000000010800000000d14920560000000b49444154789c6350b800000113"
    "00f1bc6b12350000000049454e44ae426082"
)


def ref_of(content: bytes) -> BlobRef:
    """Return the name of some bytes."""
    return BlobRef(sha256(content).hexdigest(), len(content))


NOTES_REF, PICTURE_REF = ref_of(NOTES), ref_of(PICTURE)
CONTENTS = {NOTES_REF.sha256: NOTES, PICTURE_REF.sha256: PICTURE}
