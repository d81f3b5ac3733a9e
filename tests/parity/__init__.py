"""Encodings against independent implementations from PyPI (``pip install .[parity]``); skipped where these are missing.

Not compared: TUPE, PoPE, KERPLE, FIRE, linear RoPE, ``learned_untied``, Shaw's relative values, ALiBi with split
directions. Absolute encodings are fairseq's own.
"""
