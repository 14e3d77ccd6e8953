"""Extensions that do not compile. A submission may catch the error and go on without its extension: each of its workers
would then wait for the compilers again, since ninja repeats what failed. Here the first failure is kept beside the
sources, and raised again while these are the same."""

import hashlib
import json
import pathlib

KEPT = "cudal1_failed.json"


def content_of(folder: pathlib.Path) -> str:
    """Of what ninja is given: its file and the sources beside it."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".ninja", ".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp") and path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def kept_failure(folder: pathlib.Path, content: str) -> str:
    """"" if there is none."""
    try:
        kept = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        return kept["message"] if kept["content"] == content else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def keep_failures() -> None:
    """In this process, for torch.utils.cpp_extension's builds."""
    from torch.utils import cpp_extension

    run = cpp_extension._run_ninja_build

    def run_once(build_directory: str, *args: object, **named: object) -> None:
        folder = pathlib.Path(build_directory)
        content = content_of(folder)
        if message := kept_failure(folder, content):
            raise RuntimeError(message)
        try:
            run(build_directory, *args, **named)
        except RuntimeError as problem:
            (folder / KEPT).write_text(json.dumps({"content": content, "message": str(problem)}), encoding="utf-8")
            raise

    cpp_extension._run_ninja_build = run_once
