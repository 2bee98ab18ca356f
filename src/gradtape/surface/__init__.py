"""Small parts of TensorFlow's surface that are no operations: name scopes, devices, printing, assertions."""
