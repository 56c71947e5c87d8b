"""What the scripts that write the tokenizers' fixtures share: SQuAD's texts, a hash, spelling."""
import json


def squad_texts(path):
    """Contexts and questions as they come in the file."""
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
    """FNV-1a of 64 bits."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def hashed(data):
    return f"{fnv(data):016x}"


def hexed(text):
    """UTF-8 in hexadecimal, "-" if empty."""
    return text.encode().hex() or "-"
