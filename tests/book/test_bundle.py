"""The book in one file."""

import zipfile

from lae_core.book.bundle import bundle


def test_every_file_is_in_it_and_the_same_pages_make_the_same_file(tmp_path):
    html = tmp_path / "html"
    (html / "book").mkdir(parents=True)
    (html / "index.html").write_text("<a href='book/intro.html'>")
    (html / "book" / "intro.html").write_text("<p>")
    archive = bundle(html)
    with zipfile.ZipFile(archive) as packed:
        assert sorted(packed.namelist()) == ["logavgexp-book/book/intro.html", "logavgexp-book/index.html"]
        assert packed.read("logavgexp-book/book/intro.html") == b"<p>"
    first = archive.read_bytes()
    assert bundle(html) == archive and archive.read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["html", "logavgexp-book.zip"]
