"""WMT14's archives with other lines: the same names and members, the test set in SGML."""

import io
import tarfile

from pipeline.corpus.wmt14 import archives

COUNTS = {"train": 40, "valid": 7, "test": 5}


def sgm(lines, kind):
    segments = "".join(f'<seg id="{n}">{line}</seg>\n' for n, line in enumerate(lines, 1))
    return f'<{kind} setid="x">\n<doc docid="a" origlang="en">\n<p>\n{segments}</p>\n</doc>\n</{kind}>\n'


def write_archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {"other/file.fr": "pas ici\n" * 900, **members}.items():
            data = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def write_mirror(folder, lines_of):
    """A folder of archives; ``lines_of(archive, side)`` says what is in them."""
    folder.mkdir()
    for archive in archives():
        contents = []
        for side, member in enumerate(archive.members):
            lines = lines_of(archive, side)
            contents.append(sgm(lines, "srcset") if member.endswith(".sgm") else "\n".join(lines) + "\n")
        write_archive(folder / archive.name, dict(zip(archive.members, contents)))
    return folder


def lines_of(archive, side):
    return [f"{archive.name} {'en' if side == 0 else 'de'} ä {n}" for n in range(COUNTS[archive.subset])]
