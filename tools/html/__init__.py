"""The sections of a run's HTML report, one module each; `forewarp.tools.html.page` puts them together."""
