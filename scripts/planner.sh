#!/usr/bin/env bash
# Serve the mesh planner as a page of its own. Without a display it prints the address only.
set -u
cd "$(dirname "$0")/.." || exit 1

options=()
if [ "$(uname)" != Darwin ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ -n "${SSH_CONNECTION:-}" ]; then
    options+=(--no-browser)
    echo "No display here: open the address that is printed below, http://localhost:8866 or a later port."
fi
# The page's kernel starts in the notebook's folder, and finds the course by this.
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec .venv/bin/python -m voila ${options[@]+"${options[@]}"} labs/planner_widget/app.ipynb
