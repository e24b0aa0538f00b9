"""Checks a folder of HTML pages as a reader without a network sees it: what docs.sh runs on the site.

    python3 tools/check_site.py FOLDER

Links and pictures lead to files of the folder and to places that are in them, every page outside of the C++ reference can be reached
from index.html, and no page loads anything from elsewhere (links to other sites are not followed).
"""
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page, what it links to and what it loads."""

    def __init__(self, file):
        super().__init__()
        self.places, self.links, self.loads = set(), [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places.update(given[key] for key in ("id", "name") if given.get(key))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif given.get("src"):
            self.loads.append(given["src"])
        elif tag == "link" and given.get("href") and given.get("rel") != "canonical":
            self.loads.append(given["href"])
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.links.append(given["content"].partition("url=")[2])


def main():
    folder = Path(sys.argv[1]).resolve()
    pages = {file: Page(file) for file in folder.rglob("*.html")}
    errors = []

    def target(page, address):
        """The file and the place in it, or None for another site."""
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return None
        file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        return (file / "index.html" if file.is_dir() else file), unquote(parts.fragment)

    seen, waiting = set(), [folder / "index.html"]
    while waiting:
        file = waiting.pop()
        if file in seen or file not in pages:
            continue
        seen.add(file)
        waiting += [found[0] for found in (target(file, link) for link in pages[file].links) if found]
    for file, page in pages.items():
        name = file.relative_to(folder)
        reference = name.parts[0] == "cpp"
        if file not in seen and not reference and file.name != "search.html":
            errors.append(f"{name}: no way leads to it from index.html")
        for address in page.loads:
            found = target(file, address)
            if not address.startswith(("data:", "javascript:")) and not (found and found[0].exists()):
                errors.append(f"{name} loads {address}")
        for address in page.links:
            found = target(file, address)
            if not found:
                continue
            linked, place = found
            if not linked.exists():
                errors.append(f"{name} links to {address}, which is not there")
            elif place and linked in pages and place not in pages[linked].places and not reference:
                errors.append(f"{name} links to {address}, a page without that place")
    for sheet in folder.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?(?!data:)([^)'\"]+)", sheet.read_text(encoding="utf-8")):
            if urlsplit(address).netloc:
                errors.append(f"{sheet.relative_to(folder)} loads {address}")
    print("\n".join(errors) or f"{len(pages)} pages: all links lead to something, nothing is loaded from elsewhere")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
