"""Encodings against independent implementations from PyPI (``pip install .[parity]``); skipped where these are missing.

Not compared, for want of an implementation of the same equation: TUPE, Shaw's relative values, linear RoPE, ALiBi with
split directions. Absolute encodings are fairseq's own.
"""
