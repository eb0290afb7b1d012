"""`labs list`: what there is to learn, run and write."""

from __future__ import annotations

from labs import topics


def show() -> str:
    """Each topic with its notebook, and its exercises one a line."""
    lines = []
    for topic in topics.TOPICS.values():
        lines.append(f"{topic.name}: {topic.title}")
        lines.append(f"  {topic.notebook}, {topic.ranks} ranks")
        exercises = topic.exercises()
        width = max(map(len, exercises), default=0)
        for exercise in exercises.values():
            lines.append(f"  {exercise.name:<{width}}  {exercise.header()}  {exercise.objective}")
    return "\n".join(lines)
