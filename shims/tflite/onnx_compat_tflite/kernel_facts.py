"""What TFLite runtimes were seen to do. Printed by `python -m matrix.probes.tflite_kernels table`: do not edit.

VERSIONS: the highest version of each operator that the oldest runtime loads (0: none), and the newest.
USES: an operator, the features that behave alike, the types that work on every runtime | those that newer ones add.
"""

__all__ = ["USES", "VERSIONS"]

VERSIONS = """
ADD 4 6
AVERAGE_POOL_2D 3 3
CONCATENATION 3 7
CONV_2D 5 8
DEPTHWISE_CONV_2D 6 7
DEPTH_TO_SPACE 2 2
DEQUANTIZE 5 9
EMBEDDING_LOOKUP 3 5
FLOOR 1 1
FULLY_CONNECTED 9 14
HASHTABLE_LOOKUP 1 1
L2_NORMALIZATION 2 2
L2_POOL_2D 1 1
LOCAL_RESPONSE_NORMALIZATION 1 1
LOGISTIC 3 3
LSH_PROJECTION 1 1
LSTM 4 4
MAX_POOL_2D 3 3
MUL 5 8
RELU 3 3
RELU_N1_TO_1 1 1
RELU6 3 3
RESHAPE 1 1
RESIZE_BILINEAR 4 4
RNN 3 3
SOFTMAX 3 4
SPACE_TO_DEPTH 2 2
SVDF 4 4
TANH 3 3
SKIP_GRAM 1 1
EMBEDDING_LOOKUP_SPARSE 1 1
PAD 4 6
UNIDIRECTIONAL_SEQUENCE_RNN 3 3
GATHER 5 8
BATCH_TO_SPACE_ND 3 4
SPACE_TO_BATCH_ND 3 4
TRANSPOSE 5 9
MEAN 3 3
SUB 5 5
DIV 2 2
SQUEEZE 2 2
UNIDIRECTIONAL_SEQUENCE_LSTM 3 4
STRIDED_SLICE 6 8
BIDIRECTIONAL_SEQUENCE_RNN 3 3
EXP 1 2
TOPK_V2 2 3
SPLIT 4 5
LOG_SOFTMAX 2 2
BIDIRECTIONAL_SEQUENCE_LSTM 3 3
CAST 2 9
PRELU 1 1
MAXIMUM 4 4
ARG_MAX 2 3
MINIMUM 4 4
LESS 2 3
NEG 1 1
PADV2 4 6
GREATER 2 2
GREATER_EQUAL 2 3
LESS_EQUAL 2 2
SELECT 2 4
SLICE 5 8
SIN 1 2
TRANSPOSE_CONV 3 5
SPARSE_TO_DENSE 3 3
TILE 2 3
EXPAND_DIMS 1 1
EQUAL 3 5
NOT_EQUAL 3 4
LOG 1 2
SUM 2 2
SQRT 1 2
RSQRT 2 3
SHAPE 1 1
POW 1 1
ARG_MIN 2 3
FAKE_QUANT 2 2
REDUCE_PROD 2 2
REDUCE_MAX 3 3
PACK 3 5
LOGICAL_OR 1 1
ONE_HOT 1 1
LOGICAL_AND 1 1
LOGICAL_NOT 1 1
UNPACK 4 6
REDUCE_MIN 3 3
FLOOR_DIV 2 3
REDUCE_ANY 1 1
SQUARE 1 1
ZEROS_LIKE 1 1
FILL 3 5
FLOOR_MOD 1 2
RANGE 1 2
RESIZE_NEAREST_NEIGHBOR 4 4
LEAKY_RELU 2 2
SQUARED_DIFFERENCE 2 2
MIRROR_PAD 2 3
ABS 4 5
SPLIT_V 2 3
UNIQUE 1 1
CEIL 1 1
REVERSE_V2 3 4
ADD_N 1 1
GATHER_ND 3 6
COS 1 2
WHERE 1 2
RANK 1 1
ELU 1 1
REVERSE_SEQUENCE 1 1
MATRIX_DIAG 1 1
QUANTIZE 3 6
MATRIX_SET_DIAG 1 1
ROUND 1 1
HARD_SWISH 1 1
IF 1 1
WHILE 1 1
NON_MAX_SUPPRESSION_V4 1 1
NON_MAX_SUPPRESSION_V5 1 1
SCATTER_ND 1 1
SELECT_V2 1 2
DENSIFY 1 1
SEGMENT_SUM 1 1
BATCH_MATMUL 4 4
CUMSUM 1 1
CALL_ONCE 1 1
BROADCAST_TO 3 4
RFFT2D 1 1
CONV_3D 1 1
IMAG 1 1
REAL 1 1
COMPLEX_ABS 1 1
HASHTABLE 1 1
HASHTABLE_FIND 1 1
HASHTABLE_IMPORT 1 1
HASHTABLE_SIZE 1 1
REDUCE_ALL 1 1
CONV_3D_TRANSPOSE 1 1
VAR_HANDLE 1 1
READ_VARIABLE 1 1
ASSIGN_VARIABLE 1 1
BROADCAST_ARGS 1 1
RANDOM_STANDARD_NORMAL 1 1
BUCKETIZE 0 1
RANDOM_UNIFORM 0 1
MULTINOMIAL 0 1
GELU 0 3
DYNAMIC_UPDATE_SLICE 0 6
RELU_0_TO_1 0 1
UNSORTED_SEGMENT_PROD 0 1
UNSORTED_SEGMENT_MAX 0 1
UNSORTED_SEGMENT_SUM 0 1
ATAN2 0 1
UNSORTED_SEGMENT_MIN 0 1
SIGN 0 2
BITCAST 0 1
BITWISE_XOR 0 1
RIGHT_SHIFT 0 1
STABLEHLO_ADD 0 1
STABLEHLO_MULTIPLY 0 1
STABLEHLO_MAXIMUM 0 1
STABLEHLO_AND 0 1
STABLEHLO_MINIMUM 0 1
STABLEHLO_SCATTER 0 1
STABLEHLO_PAD 0 1
STABLEHLO_REDUCE_WINDOW 0 1
STABLEHLO_GATHER 0 1
DILATE 0 1
STABLEHLO_RNG_BIT_GENERATOR 0 1
REDUCE_WINDOW 0 1
STABLEHLO_COMPOSITE 0 1
STABLEHLO_SHIFT_LEFT 0 1
STABLEHLO_CASE 0 1
"""

USES = """
ABS: plain, empty, rank 6, scalar: float32 int16 | int32
ADD: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 | float16 int16
ADD: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64
ARG_MAX: plain, int64 output: float32 int8 int32 uint8 | bool
ARG_MIN: plain, int64 output: float32 int8 int32 uint8 | bool
ATAN2: plain, empty, empty broadcast, rank 5, scalars: | float32 float16 float64
AVERAGE_POOL_2D: plain: float32 |
BATCH_MATMUL: plain, adj_x, adj_y, broadcast rank 4, constant, rank 2: float32 |
BATCH_MATMUL: broadcast rank 5: | float32
BATCH_TO_SPACE_ND: plain: float32 int8 int32 int64 uint8 | float16 float64 int16 uint16 uint32 uint64
BITCAST: float32: | float32
BITWISE_XOR: plain, broadcast, broadcast rank 5, broadcast rank 6, empty, empty broadcast, rank 5, scalar, scalars: | int8 int16 int32 uint8 uint16 uint32
BROADCAST_ARGS: plain: int32 int64 |
BROADCAST_TO: plain, int64 index, rank 4, rank 4 int64 index, rank 5, rank 5 int64 index, rank 6, rank 6 int64 index: float32 float16 float64 int8 int16 int32 int64 uint8 uint32 uint64 bool complex64 | uint16
CAST: to bool, to complex64, to float32, to int16, to int32, to int64, to uint32, to uint8: float32 int16 int32 int64 uint8 uint32 bool complex64 | float16 float64 int8 uint16
CAST: to float16, to float64, to int8, to uint16: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 bool complex64
CEIL: plain, empty, rank 6, scalar: float32 |
COMPLEX_ABS: plain: complex64 |
CONCATENATION: plain, empty part, rank 6: float32 int8 int16 int32 int64 uint8 bool | float16 uint32
CONV_2D: plain, run-time weights: float32 |
CONV_2D: grouped: | float32
CONV_3D: plain: float32 |
CONV_3D_TRANSPOSE: plain: float32 |
COS: plain, empty, rank 6, scalar: float32 | float16
CUMSUM: plain, exclusive, reverse: float32 int32 int64 |
DEPTHWISE_CONV_2D: plain: float32 |
DEPTH_TO_SPACE: plain: float32 int8 int32 int64 uint8 |
DILATE: plain: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64
DIV: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 |
DIV: broadcast rank 6: | float32 int32
DYNAMIC_UPDATE_SLICE: plain, int64 index: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool
ELU: plain, empty, rank 6, scalar: float32 |
EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 bool string | float16 int16
EQUAL: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64 bool string
EXP: plain, empty, rank 6, scalar: float32 |
EXPAND_DIMS: plain, int64 index: float32 float16 float64 int8 int16 int32 int64 uint8 uint32 uint64 bool string complex64 | uint16
FILL: plain, int64 index: float32 int8 int16 int32 int64 bool | float16 float64 uint8 uint16 uint32 uint64 complex64
FLOOR: plain, empty, rank 6, scalar: float32 | float16
FLOOR_DIV: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 | int8 int16
FLOOR_DIV: broadcast rank 5, broadcast rank 6: | float32 int8 int16 int32
FLOOR_MOD: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 | int8 int16
FLOOR_MOD: broadcast rank 5, broadcast rank 6: | float32 int8 int16 int32 int64
FULLY_CONNECTED: plain, keep_num_dims, run-time weights: float32 |
GATHER: plain, axis, axis int64 index, batch, batch int64 index, int64 index: float32 int8 int16 int32 int64 uint8 bool | float16
GATHER_ND: plain, int64 index: float32 int8 int16 int32 int64 uint8 string | float16 bool
GELU: plain, empty, rank 6, scalar: | float32 float16
GREATER: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 | float16 int16
GREATER: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64
GREATER_EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 | float16 int16
GREATER_EQUAL: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64
HARD_SWISH: plain, empty, rank 6, scalar: float32 |
IMAG: plain: complex64 |
L2_NORMALIZATION: plain: float32 |
L2_POOL_2D: plain: float32 |
LEAKY_RELU: plain: float32 |
LESS: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 | float16 int16
LESS: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64
LESS_EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 | float16 int16
LESS_EQUAL: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64
LOCAL_RESPONSE_NORMALIZATION: plain: float32 |
LOG: plain: float32 |
LOGICAL_AND: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: bool |
LOGICAL_AND: broadcast rank 5, broadcast rank 6: | bool
LOGICAL_NOT: plain: bool |
LOGICAL_OR: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: bool |
LOGICAL_OR: broadcast rank 5, broadcast rank 6: | bool
LOGISTIC: plain, empty, rank 6, scalar: float32 | float16
LOG_SOFTMAX: plain, rank 1, rank 3, rank 4, rank 5: float32 |
MATRIX_DIAG: plain: float32 int8 int16 int32 int64 uint8 uint32 | uint16
MAXIMUM: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 int8 int16 int32 int64 uint8 | float16
MAXIMUM: broadcast rank 6: | float32 float16 int8 int16 int32 int64 uint8
MAX_POOL_2D: plain: float32 int8 int16 |
MEAN: plain, all axes, no keep_dims, rank 5, rank 6: float32 int32 int64 |
MINIMUM: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 int8 int16 int32 int64 uint8 | float16
MINIMUM: broadcast rank 6: | float32 float16 int8 int16 int32 int64 uint8
MIRROR_PAD: reflect, reflect int64 index, symmetric, symmetric int64 index: float32 int8 int32 int64 uint8 | float16 float64 int16 uint16 uint32 uint64
MUL: plain, broadcast, rank 5, scalar, scalars: float32 int32 int64 | float16 uint32 complex64
MUL: broadcast rank 5, broadcast rank 6: | float32 float16 int16 int32 int64 uint32 complex64
MUL: empty, empty broadcast: float32 int32 int64 | float16 int16 uint32 complex64
NEG: plain, empty, rank 6, scalar: float32 int32 int64 | float16 int8 int16
NOT_EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 bool string | float16
NOT_EQUAL: broadcast rank 5, broadcast rank 6: | float32 float16 int32 int64 bool string
ONE_HOT: plain, int64 index: float32 int8 int32 int64 uint8 bool |
PACK: plain: float32 int8 int16 int32 int64 uint8 | uint32
PAD: plain, rank 4, rank 5: float32 int8 int16 int32 int64 uint8 | float16 bool
PAD: int64 index, rank 4 int64 index, rank 5 int64 index: | float16 bool
PADV2: plain, rank 4, rank 5: float32 int8 int16 int32 int64 uint8 | float16 bool
PADV2: int64 index, rank 4 int64 index, rank 5 int64 index: | float16 bool
POW: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 |
POW: broadcast rank 5, broadcast rank 6: | float32 int32
PRELU: plain, rank 5: float32 |
RANGE: plain: float32 int32 | int64
RANK: plain: float32 float16 float64 int8 int16 int32 int64 uint8 uint32 uint64 bool string complex64 | uint16
REAL: plain: complex64 |
REDUCE_ALL: plain, all axes, no keep_dims, rank 5, rank 6: bool |
REDUCE_ANY: plain, all axes, no keep_dims, rank 5, rank 6: bool |
REDUCE_MAX: plain, all axes, no keep_dims, rank 5, rank 6: float32 int8 int16 int32 int64 uint8 |
REDUCE_MIN: plain, all axes, no keep_dims, rank 5, rank 6: float32 int8 int16 int32 int64 uint8 |
REDUCE_PROD: plain, all axes, no keep_dims, rank 5, rank 6: float32 int8 int16 int32 int64 uint8 |
RELU: plain, empty, rank 6, scalar: float32 |
RELU6: plain, empty, rank 6, scalar: float32 |
RELU_0_TO_1: plain, empty, rank 6, scalar: | float32
RELU_N1_TO_1: plain, empty, rank 6, scalar: float32 |
RESHAPE: plain: float32 float16 float64 int8 int16 int32 int64 uint8 uint32 uint64 bool string complex64 | uint16
RESIZE_BILINEAR: plain, half_pixel_centers: float32 int8 int16 |
RESIZE_BILINEAR: align_corners: float32 |
RESIZE_NEAREST_NEIGHBOR: plain, half_pixel_centers: float32 int8 int16 uint8 | float16 int32 bool
REVERSE_SEQUENCE: plain, int64 index: float32 int16 int32 int64 uint8 |
REVERSE_V2: plain: float32 int8 int16 int32 int64 uint8 bool | float16
REVERSE_V2: two axes: | float16
RIGHT_SHIFT: plain, broadcast, broadcast rank 5, broadcast rank 6, empty, empty broadcast, rank 5, scalar, scalars: | int8 int16 int32 uint8 uint16 uint32
ROUND: plain, empty, halves, rank 6, scalar: float32 | float16
RSQRT: plain: float32 |
SCATTER_ND: plain: float32 int8 int32 int64 uint8 | bool
SCATTER_ND: adds duplicates: float32 int8 int32 int64 uint8 |
SEGMENT_SUM: plain: float32 int32 |
SELECT: plain: float32 int8 int16 int32 int64 uint8 bool | float16 float64 uint16 uint32 uint64 complex64
SELECT_V2: plain, broadcast rank 3: float32 int8 int16 int32 int64 uint8 bool | float16 float64 uint16 uint32 uint64 complex64
SELECT_V2: broadcast rank 5, broadcast rank 6: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64
SHAPE: plain, int64 output: float32 float16 float64 int8 int16 int32 int64 uint8 uint32 uint64 bool string complex64 | uint16
SIGN: plain, empty, rank 6, scalar: | float32 float64 int32
SIN: plain, empty, rank 6, scalar: float32 | float16
SLICE: plain, int64 index, rank 4, rank 4 int64 index, rank 5, rank 5 int64 index: float32 int8 int16 int32 int64 uint8 bool string | float16 float64 uint16 uint32 uint64 complex64
SLICE: rank 6, rank 6 int64 index: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string complex64
SOFTMAX: plain, rank 1, rank 3, rank 4, rank 5: float32 | float16
SPACE_TO_BATCH_ND: plain: float32 int8 int32 int64 uint8 | float16 float64 int16 uint16 uint32 uint64
SPACE_TO_DEPTH: plain: float32 int8 int32 int64 uint8 |
SPLIT: plain: float32 int8 int16 int32 uint8 | int64
SPLIT_V: plain: float32 int8 int16 int32 int64 uint8 |
SQRT: plain: float32 |
SQUARE: plain, empty, rank 6, scalar: float32 |
SQUARED_DIFFERENCE: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 |
SQUARED_DIFFERENCE: broadcast rank 5, broadcast rank 6: | float32 int32
SQUEEZE: plain: float32 float16 float64 int8 int16 int32 int64 uint8 uint32 uint64 bool string complex64 | uint16
STRIDED_SLICE: plain, begin_mask end_mask, ellipsis_mask, new_axis_mask, rank 4, rank 5, shrink_axis_mask: float32 int8 int16 int32 int64 uint8 bool string | float16 float64 uint16 uint32 uint64 complex64
STRIDED_SLICE: rank 6: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string complex64
SUB: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64 |
SUB: broadcast rank 6: | float32 int32 int64
SUM: plain, all axes, no keep_dims, rank 5, rank 6: float32 int32 int64 |
TANH: plain, empty, rank 6, scalar: float32 | float16
TILE: plain, int64 index, rank 4, rank 4 int64 index, rank 5, rank 5 int64 index, rank 6, rank 6 int64 index: float32 int32 int64 uint8 bool string | float16 float64 int8 int16 uint16 uint32 uint64 complex64
TOPK_V2: plain: float32 int8 int32 int64 uint8 | int16
TRANSPOSE: plain, rank 4, rank 5: float32 int8 int16 int32 int64 uint8 bool | float16 float64 uint16 uint32 uint64 complex64
TRANSPOSE: rank 6, rank 7: | float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64
TRANSPOSE_CONV: plain, bias: float32 |
UNIQUE: plain, int64 output: float32 int8 int16 int32 int64 uint8 |
UNPACK: plain: float32 int8 int16 int32 uint8 bool | float16
WHERE: plain: bool | float32 int8 int32 int64 uint8 uint32
ZEROS_LIKE: plain, empty, rank 6, scalar: float32 int32 int64 |
"""
