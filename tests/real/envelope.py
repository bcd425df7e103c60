"""What a save must have made of an answer: the envelope, and the bytes of the file, found without any code of the gateway."""

import base64
import hashlib
import json

from table import check, equal

ENVELOPE_KEYS = [
    "saved_to", "bytes", "sha256", "format", "mime_type", "content_blocks", "non_text_blocks", "preview", "truncated_preview",
    "reason", "limit", "cache_key",
]  # fmt: skip
OPTIONAL_KEYS = {"mime_type", "reason", "limit", "cache_key"}
PREVIEW_CHARACTERS = 1000


def compare_file(envelope, target, save_format):
    """The envelope says the truth about the file, and nothing else lies beside it."""
    wanted = [key for key in ENVELOPE_KEYS if key in envelope or key not in OPTIONAL_KEYS]
    equal(list(envelope), wanted, "members of the envelope")
    equal(envelope["saved_to"], str(target), "saved_to")
    equal(envelope["format"], save_format, "format")
    data = target.read_bytes()
    equal(envelope["bytes"], len(data), "bytes")
    equal(envelope["sha256"], hashlib.sha256(data).hexdigest(), "sha256")
    equal(oct(target.stat().st_mode & 0o7777), oct(0o600), "mode of the file")
    equal([entry.name for entry in target.parent.iterdir()], [target.name], "what lies in the directory")


def compare_counts(envelope, raw, save_format):
    """The envelope counts the blocks of the result `raw`, and its preview is the beginning of the text."""
    result = json.loads(raw)
    kinds = [block["type"] for block in result["content"]]
    equal(envelope["content_blocks"], len(kinds), "content_blocks")
    equal(envelope["non_text_blocks"], len(kinds) - kinds.count("text"), "non_text_blocks")
    if save_format == "binary":
        equal(envelope["preview"], "", "preview")
    elif "text" in kinds:
        text = text_of(result)
        equal(envelope["preview"], text[:PREVIEW_CHARACTERS], "preview")
        equal(envelope["truncated_preview"], len(text) > PREVIEW_CHARACTERS, "truncated_preview")


def compare_saved(envelope, target, raw, save_format):
    """Envelope and file are what the server's result `raw`, as it was written, must have become."""
    compare_file(envelope, target, save_format)
    compare_counts(envelope, raw, save_format)
    equal(target.read_bytes(), file_of(raw, save_format), "the file against what the server wrote")
    if save_format == "binary":
        equal(envelope["mime_type"], _blob(raw)["mimeType"], "mime_type")


def file_of(raw, save_format):
    """The bytes of a file made of the result `raw`, whose answer has text blocks or, for binary, one blob."""
    if save_format == "json":
        return raw
    if save_format == "binary":
        blob = _blob(raw)
        return base64.b64decode(blob.get("data") or blob["blob"], validate=True)
    return text_of(json.loads(raw)).encode("utf-8")


def text_of(result):
    """The text blocks of a parsed result, joined as a saved text is."""
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    check(texts, "the answer has no text block")
    return "\n".join(texts)


def _blob(raw):
    """The one block of bytes: an image, a sound, or the resource inside a block."""
    blocks = [block.get("resource", block) for block in json.loads(raw)["content"]]
    blobs = [block for block in blocks if "data" in block or "blob" in block]
    equal(len(blobs), 1, "blobs of the answer")
    return blobs[0]
