"""The sections of a run's HTML report, one module each; `forewarp.report.html.page` puts them together."""
