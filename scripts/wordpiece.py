"""A second, independent BERT tokenizer, so that fixtures do not test a library against itself."""
import json
import unicodedata
from pathlib import Path

CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
       (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def is_punctuation(char):
    """Say whether BERT splits at this character: ASCII symbols count, other symbols do not."""
    code = ord(char)
    ascii_symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_symbol or unicodedata.category(char).startswith("P")


def normalize(text):
    """Clean, space out CJK characters, strip accents and lower the case."""
    out = []
    for char in text:
        if char in "\t\n\r" or unicodedata.category(char) == "Zs":
            out.append(" ")
        elif char in "\0\ufffd" or unicodedata.category(char).startswith("C"):
            continue
        elif any(low <= ord(char) <= high for low, high in CJK):
            out.append(f" {char} ")
        else:
            out.append(char)
    decomposed = unicodedata.normalize("NFD", "".join(out))
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn").lower()


def words(text):
    """Split normalised text at white space, with every punctuation mark a word of its own."""
    spaced = "".join(f" {char} " if is_punctuation(char) else char for char in text)
    return spaced.split()


class WordPiece:
    """Greedy longest-match word pieces over the vocabulary of a tokenizer.json."""

    def __init__(self, path):
        """Read the vocabulary."""
        model = json.loads(Path(path).read_text(encoding="utf-8"))["model"]
        self.vocabulary, self.longest = model["vocab"], model["max_input_chars_per_word"]
        self.cls, self.sep, self.unk = (self.vocabulary[name] for name in ("[CLS]", "[SEP]", "[UNK]"))

    def pieces(self, word):
        """Return the ids of one word; a word with no full cover is one unknown id."""
        if len(word) > self.longest:
            return [self.unk]
        ids, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start and self.piece(word, start, end) not in self.vocabulary:
                end -= 1
            if end == start:
                return [self.unk]
            ids.append(self.vocabulary[self.piece(word, start, end)])
            start = end
        return ids

    @staticmethod
    def piece(word, start, end):
        """Return a slice of a word as the vocabulary spells it."""
        return word[start:end] if start == 0 else "##" + word[start:end]

    def encode(self, text, limit):
        """Return (ids with special tokens, at most `limit`; number of tokens cut away)."""
        ids = self.bare(text)
        kept = ids[: limit - 2]
        return [self.cls, *kept, self.sep], len(ids) - len(kept)

    def encode_pair(self, query, document, limit):
        """Return (ids of `[CLS] query [SEP] document [SEP]`, token types, document tokens cut away to keep the limit)."""
        first, second = [self.cls, *self.bare(query), self.sep], self.bare(document)
        room = limit - len(first) - 1
        if room < 1:
            raise ValueError("the query leaves no room for a document")
        kept = second[:room]
        return [*first, *kept, self.sep], [0] * len(first) + [1] * (len(kept) + 1), len(second) - len(kept)

    def bare(self, text):
        """Return the ids of a text without special tokens; one that is spelled in the text is ordinary text."""
        return [piece for word in words(normalize(text)) for piece in self.pieces(word)]
