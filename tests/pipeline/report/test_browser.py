"""The report in a browser, where one is installed: no page is wider than its window, and every picture loads."""

import re
import shutil
import subprocess

import pytest

from ...commands import ROOT, run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PROBE = """<script>addEventListener("load", () => {
  const page = document.documentElement, broken = [...document.images].filter(image => !image.naturalWidth)
  page.setAttribute("data-found", [page.scrollWidth - page.clientWidth, document.images.length, broken.length])
})</script></body>"""
FRAME = """<iframe src="probed.html" width="{width}" height="900"></iframe><script>addEventListener("load", () =>
  document.body.append(frames[0].document.documentElement.getAttribute("data-found")))</script>"""
"""A window has a least width, a frame has none."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="needs chromium")]


@pytest.mark.parametrize("width", [1100, 400])
def test_the_report_fits_its_window_and_its_pictures_load(tmp_path, width):
    for path in (ROOT / "results").glob("multi30k_cpu-*_multi30k-seed1.json"):
        shutil.copy(path, tmp_path)
    run("scripts/report.sh", "--results", tmp_path, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (tmp_path / "probed.html").write_text(page.replace("</body>", PROBE), encoding="utf-8")
    (tmp_path / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--allow-file-access-from-files", "--virtual-time-budget=5000"]
    command = [CHROMIUM, *options, "--dump-dom", (tmp_path / "frame.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    wider, pictures, broken = map(int, re.search(r"(-?\d+),(\d+),(\d+)</body>", shown).groups())
    assert wider <= 0 and pictures > 0 and broken == 0
