"""The list of what the plugin changes in fairseq."""

from pathlib import Path

from fairseq_rope.fairseq_patches import MARK, PATCHES, install


def test_each_patch_is_in_place_once_and_has_a_test():
    def present():
        return [getattr(patch.owner, patch.name) for patch in PATCHES]

    installed = present()
    install()
    assert all(now is before for now, before in zip(present(), installed))
    assert all(hasattr(each, MARK) for patch, each in zip(PATCHES, installed) if patch.name != "compat")
    assert all((Path(__file__).parent / patch.test).is_file() for patch in PATCHES)
