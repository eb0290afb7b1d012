"""The planner's pictures, each an SVG written by hand; none knows of widgets."""
