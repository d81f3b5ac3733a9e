"""Packaging of fairseq_rope, a fairseq plugin with position encodings for machine translation."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "fairseq_rope/__init__.py").read_text(encoding="utf-8")).group(1)

setup(
    name="fairseq_rope",
    version=VERSION,
    description="Position encodings for machine translation (RoPE and others) as a fairseq plugin",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    keywords="fairseq transformer position-encoding rope alibi tupe machine-translation",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    packages=find_packages(include=["fairseq_rope", "fairseq_rope.*"]),
    package_data={"fairseq_rope": ["py.typed"]},
    entry_points={"console_scripts": ["fairseq-rope = fairseq_rope.__main__:main"]},
    python_requires=">=3.10",
    install_requires=[
        # the official release does not import on Python 3.11 and later; the fork has the same code and module name
        'fairseq==0.12.2; python_version < "3.11"',
        'fairseq-fixed==0.12.3.1; python_version >= "3.11"',
        "torch>=2.4.1",  # 2.4 is the first with an allow-list for safe loading; its attention on a CPU may be NaN
        'numpy<1.24; python_version < "3.11"',  # the official fairseq needs numpy.float
        'numpy; python_version >= "3.11"',
        "sacrebleu>=2.3",
        "sacremoses>=0.1",
        "subword-nmt>=0.3.8",
        "tqdm",
    ],
    extras_require={
        "test": [
            *["pytest", "pytest-xdist", "ruff", "mypy"],
            'import-linter>=2.16; python_version >= "3.11"',  # older ones find no cycles
            "setuptools>=70.1",  # the first that builds a wheel by itself
        ],
        "scripts": [
            'tomli; python_version < "3.11"',  # recipes are TOML
            *["msgspec>=0.21", "filelock>=3.12.4"],  # recipes and records; one command at a time
            *["jinja2>=3.1", "markdown-it-py>=3.0"],  # the report
            "sentencepiece>=0.2",  # prepare.sh --subwords sentencepiece
        ],
        "glue": ["scikit-learn", "scipy"],  # the metrics of finetune.sh
        # sacreBLEU's tokenisers of Japanese and Korean
        "ja": ["sacrebleu[ja]"],
        "ko": ["sacrebleu[ko]"],
        "plot": ["matplotlib>=3.9"],
        "export": ["ctranslate2>=4.8"],
        # BERT's and RoFormer's checkpoints and word pieces: fairseq-rope convert, --bpe wordpiece
        "hugging-face": [
            'safetensors>=0.5; python_version >= "3.11"',
            'tokenizers>=0.22; python_version >= "3.11"',
            'rjieba>=0.2; python_version >= "3.11"',
        ],
        "tensorboard": ["tensorboard"],  # which fairseq-train --tensorboard-logdir writes with
        "sweep": [
            'snakemake>=9.27,<10; python_version >= "3.11"',
            'snakemake-executor-plugin-slurm>=2.8,<3; python_version >= "3.11"',
        ],
        "docs": [
            'mkdocs-material>=9.8; python_version >= "3.11"',
            'mkdocstrings[python]>=1.0; python_version >= "3.11"',
        ],
        # independent implementations, which tests/parity compares the encodings with
        "parity": [
            'transformers==4.57.6; python_version >= "3.11"',
            'x-transformers==2.31.10; python_version >= "3.11"',
        ],
    },
)
