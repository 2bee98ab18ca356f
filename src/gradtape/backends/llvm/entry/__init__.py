"""The border between Python and native code: arrays in, arrays out, failures, reports."""
