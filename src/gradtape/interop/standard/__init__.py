"""The functions of the Python array API standard, one file per chapter of it; `gradtape.array_api` puts them together.

Every function is written in gradtape's ops, so it is recorded, traced and differentiated. Names, signatures, dtypes and special
values are the standard's (version 2024.12); what it leaves open is gradtape's: float32, int32 and complex64 are the defaults.
"""
