"""Retarget: bring an ONNX model to another opset and IR version, node by node.

A node stays byte-identical if its meaning is the same at the target. Else its form changes by a rule, or its meaning is
written over the operators that the target has. A node that cannot be written is refused by name.
"""
