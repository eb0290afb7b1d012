"""The course's own answers, of which a step on a mesh is made."""

from labs.answers import reference
from labs.mesh.trainer import PARTS as _TOPICS

PARTS = {name: reference(f"{topic}.{name}") for name, topic in _TOPICS.items()}
