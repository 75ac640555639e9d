"""What ``hogshare bench`` measures, prints and draws; the options are in `hogshare.cli.bench`."""
