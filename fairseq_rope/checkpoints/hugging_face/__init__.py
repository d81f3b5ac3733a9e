"""Folders of Hugging Face's transformers: masked BERT and RoFormer, MarianMT, M2M100 and NLLB."""
