"""Code that the scripts for the tokenizers' fixtures share: SQuAD's texts, a hash, and the spelling
of texts in fixtures."""
import json


def squad_texts(path):
    """Returns contexts and questions in file order."""
    with open(path, encoding="utf-8") as f:
        file = json.load(f)
    texts = []

    def walk(value):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if key in ("context", "question"):
                texts.append(item)
            elif isinstance(item, (dict, list)):
                walk(item)
    walk(file)
    return texts


def fnv(data):
    """Returns the 64-bit FNV-1a hash."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def hashed(data):
    return f"{fnv(data):016x}"


def hexed(text):
    """Returns the UTF-8 in hexadecimal, or "-" if the text is empty."""
    return text.encode().hex() or "-"
