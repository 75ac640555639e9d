"""What ``hogshare bench`` measures, prints and draws; options are in `hogshare.lab.experiments`."""
