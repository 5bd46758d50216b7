"""An inference engine in numpy that is right, small, and easy to make wrong. See ../README.md."""

from .wirings import ENLARGED, FIXTURES, build, enlarge, model_file

__all__ = ["ENLARGED", "FIXTURES", "build", "enlarge", "model_file"]
