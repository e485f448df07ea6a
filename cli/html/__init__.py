"""The sections of a run's HTML report, one module each; `forewarp.cli.html_report` puts them together."""
