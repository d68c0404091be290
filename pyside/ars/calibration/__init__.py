"""Calibration: are the posteriors of many data sets, drawn from the prior, right on average?"""
