"""From the bytes of a TOOL.hdlp to a Definition or every problem with it; `reading.py` is the door (contract/tool-hdlp.md)."""
