"""Kernels of the TFLite runtimes, as probed. Printed by `python -m matrix.probes.tflite_kernels table`: do not edit.

VERSIONS: the highest version of each op that the runtimes load; 0: none. Runtimes of equal versions share a column; the oldest
are in column 0.
USES: an op, its uses that give the same answer, and the dtypes that work. "dtype:3" works from column 3 of VERSIONS on.
"""

__all__ = ["USES", "VERSIONS"]

VERSIONS = """
ADD 4 5 5 5 5 6
AVERAGE_POOL_2D 3 3 3 3 3 3
CONCATENATION 3 3 4 4 4 7
CONV_2D 5 7 7 8 8 8
DEPTHWISE_CONV_2D 6 7 7 7 7 7
DEPTH_TO_SPACE 2 2 2 2 2 2
DEQUANTIZE 5 5 5 6 7 9
EMBEDDING_LOOKUP 3 3 3 4 4 5
FLOOR 1 1 1 1 1 1
FULLY_CONNECTED 9 10 10 13 14 14
HASHTABLE_LOOKUP 1 1 1 1 1 1
L2_NORMALIZATION 2 2 2 2 2 2
L2_POOL_2D 1 1 1 1 1 1
LOCAL_RESPONSE_NORMALIZATION 1 1 1 1 1 1
LOGISTIC 3 3 3 3 3 3
LSH_PROJECTION 1 1 1 1 1 1
LSTM 4 4 4 4 4 4
MAX_POOL_2D 3 3 3 3 3 3
MUL 5 7 7 7 7 8
RELU 3 3 3 3 3 3
RELU_N1_TO_1 1 1 1 1 1 1
RELU6 3 3 3 3 3 3
RESHAPE 1 1 1 1 1 1
RESIZE_BILINEAR 4 4 4 4 4 4
RNN 3 3 3 3 3 3
SOFTMAX 3 3 3 3 3 4
SPACE_TO_DEPTH 2 2 2 2 2 2
SVDF 4 4 4 4 4 4
TANH 3 3 3 3 3 3
SKIP_GRAM 1 1 1 1 1 1
EMBEDDING_LOOKUP_SPARSE 1 1 1 1 1 1
PAD 4 4 4 4 5 6
UNIDIRECTIONAL_SEQUENCE_RNN 3 3 3 3 3 3
GATHER 5 6 6 7 7 8
BATCH_TO_SPACE_ND 3 4 4 4 4 4
SPACE_TO_BATCH_ND 3 4 4 4 4 4
TRANSPOSE 5 6 6 6 7 9
MEAN 3 3 3 3 3 3
SUB 5 5 5 5 5 5
DIV 2 2 2 2 2 2
SQUEEZE 2 2 2 2 2 2
UNIDIRECTIONAL_SEQUENCE_LSTM 3 4 4 4 4 4
STRIDED_SLICE 6 6 8 8 8 8
BIDIRECTIONAL_SEQUENCE_RNN 3 3 3 3 3 3
EXP 1 2 2 2 2 2
TOPK_V2 2 3 3 3 3 3
SPLIT 4 4 4 4 4 5
LOG_SOFTMAX 2 2 2 2 2 2
BIDIRECTIONAL_SEQUENCE_LSTM 3 3 3 3 3 3
CAST 2 5 5 6 8 9
PRELU 1 1 1 1 1 1
MAXIMUM 4 4 4 4 4 4
ARG_MAX 2 3 3 3 3 3
MINIMUM 4 4 4 4 4 4
LESS 2 3 3 3 3 3
NEG 1 1 1 1 1 1
PADV2 4 4 4 4 5 6
GREATER 2 2 2 2 2 2
GREATER_EQUAL 2 3 3 3 3 3
LESS_EQUAL 2 2 2 2 2 2
SELECT 2 3 4 4 4 4
SLICE 5 5 6 6 7 8
SIN 1 1 1 1 1 2
TRANSPOSE_CONV 3 4 4 5 5 5
SPARSE_TO_DENSE 3 3 3 3 3 3
TILE 2 3 3 3 3 3
EXPAND_DIMS 1 1 1 1 1 1
EQUAL 3 4 4 4 5 5
NOT_EQUAL 3 3 3 3 4 4
LOG 1 1 1 2 2 2
SUM 2 2 2 2 2 2
SQRT 1 1 1 1 2 2
RSQRT 2 2 2 3 3 3
SHAPE 1 1 1 1 1 1
POW 1 1 1 1 1 1
ARG_MIN 2 3 3 3 3 3
FAKE_QUANT 2 2 2 2 2 2
REDUCE_PROD 2 2 2 2 2 2
REDUCE_MAX 3 3 3 3 3 3
PACK 3 3 4 4 4 5
LOGICAL_OR 1 1 1 1 1 1
ONE_HOT 1 1 1 1 1 1
LOGICAL_AND 1 1 1 1 1 1
LOGICAL_NOT 1 1 1 1 1 1
UNPACK 4 4 4 4 4 6
REDUCE_MIN 3 3 3 3 3 3
FLOOR_DIV 2 3 3 3 3 3
REDUCE_ANY 1 1 1 1 1 1
SQUARE 1 1 1 1 1 1
ZEROS_LIKE 1 1 1 1 1 1
FILL 3 4 4 4 4 5
FLOOR_MOD 1 2 2 2 2 2
RANGE 1 1 2 2 2 2
RESIZE_NEAREST_NEIGHBOR 4 4 4 4 4 4
LEAKY_RELU 2 2 2 2 2 2
SQUARED_DIFFERENCE 2 2 2 2 2 2
MIRROR_PAD 2 3 3 3 3 3
ABS 4 5 5 5 5 5
SPLIT_V 2 2 2 2 2 3
UNIQUE 1 1 1 1 1 1
CEIL 1 1 1 1 1 1
REVERSE_V2 3 3 3 3 3 4
ADD_N 1 1 1 1 1 1
GATHER_ND 3 4 4 5 5 6
COS 1 1 1 1 1 2
WHERE 1 2 2 2 2 2
RANK 1 1 1 1 1 1
ELU 1 1 1 1 1 1
REVERSE_SEQUENCE 1 1 1 1 1 1
MATRIX_DIAG 1 1 1 1 1 1
QUANTIZE 3 3 3 3 4 6
MATRIX_SET_DIAG 1 1 1 1 1 1
ROUND 1 1 1 1 1 1
HARD_SWISH 1 1 1 1 1 1
IF 1 1 1 1 1 1
WHILE 1 1 1 1 1 1
NON_MAX_SUPPRESSION_V4 1 1 1 1 1 1
NON_MAX_SUPPRESSION_V5 1 1 1 1 1 1
SCATTER_ND 1 1 1 1 1 1
SELECT_V2 1 1 2 2 2 2
DENSIFY 1 1 1 1 1 1
SEGMENT_SUM 1 1 1 1 1 1
BATCH_MATMUL 4 4 4 4 4 4
CUMSUM 1 1 1 1 1 1
CALL_ONCE 1 1 1 1 1 1
BROADCAST_TO 3 3 3 3 3 4
RFFT2D 1 1 1 1 1 1
CONV_3D 1 1 1 1 1 1
IMAG 1 1 1 1 1 1
REAL 1 1 1 1 1 1
COMPLEX_ABS 1 1 1 1 1 1
HASHTABLE 1 1 1 1 1 1
HASHTABLE_FIND 1 1 1 1 1 1
HASHTABLE_IMPORT 1 1 1 1 1 1
HASHTABLE_SIZE 1 1 1 1 1 1
REDUCE_ALL 1 1 1 1 1 1
CONV_3D_TRANSPOSE 1 1 1 1 1 1
VAR_HANDLE 1 1 1 1 1 1
READ_VARIABLE 1 1 1 1 1 1
ASSIGN_VARIABLE 1 1 1 1 1 1
BROADCAST_ARGS 1 1 1 1 1 1
RANDOM_STANDARD_NORMAL 1 1 1 1 1 1
BUCKETIZE 0 1 1 1 1 1
RANDOM_UNIFORM 0 1 1 1 1 1
MULTINOMIAL 0 1 1 1 1 1
GELU 0 2 2 2 2 3
DYNAMIC_UPDATE_SLICE 0 1 1 2 4 6
RELU_0_TO_1 0 1 1 1 1 1
UNSORTED_SEGMENT_PROD 0 1 1 1 1 1
UNSORTED_SEGMENT_MAX 0 1 1 1 1 1
UNSORTED_SEGMENT_SUM 0 1 1 1 1 1
ATAN2 0 1 1 1 1 1
UNSORTED_SEGMENT_MIN 0 1 1 1 1 1
SIGN 0 2 2 2 2 2
BITCAST 0 1 1 1 1 1
BITWISE_XOR 0 1 1 1 1 1
RIGHT_SHIFT 0 1 1 1 1 1
STABLEHLO_ADD 0 0 0 1 1 1
STABLEHLO_MULTIPLY 0 0 0 1 1 1
STABLEHLO_MAXIMUM 0 0 0 1 1 1
STABLEHLO_AND 0 0 0 0 1 1
STABLEHLO_MINIMUM 0 0 0 1 1 1
STABLEHLO_SCATTER 0 0 0 1 1 1
STABLEHLO_PAD 0 0 0 1 1 1
STABLEHLO_REDUCE_WINDOW 0 0 0 1 1 1
STABLEHLO_GATHER 0 0 0 1 1 1
DILATE 0 0 0 1 1 1
STABLEHLO_RNG_BIT_GENERATOR 0 0 0 1 1 1
REDUCE_WINDOW 0 0 0 1 1 1
STABLEHLO_COMPOSITE 0 0 0 1 1 1
STABLEHLO_SHIFT_LEFT 0 0 0 0 1 1
STABLEHLO_CASE 0 0 0 0 1 1
"""

USES = """
ABS: plain, empty, rank 6, scalar: float32 int16 int32:1
ADD: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int16:1 int32 int64
ADD: broadcast rank 5, broadcast rank 6: float32:1 float16:5 int16:1 int32:1 int64:1
ARG_MAX: plain, int64 output: float32 int8 int32 uint8 bool:1
ARG_MIN: plain, int64 output: float32 int8 int32 uint8 bool:1
ATAN2: plain, empty, empty broadcast, rank 5, scalars: float32:1 float16:4 float64:1
AVERAGE_POOL_2D: plain: float32
BATCH_MATMUL: plain, adj_x, adj_y, broadcast rank 4, constant, rank 2: float32
BATCH_MATMUL: broadcast rank 5: float32:1
BATCH_MATMUL: none: float32:5
BATCH_TO_SPACE_ND: plain: float32 float16:5 float64:5 int8 int16:1 int32 int64 uint8 uint16:5 uint32:5 uint64:5
BITCAST: float32: float32:1
BITWISE_XOR: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: int8:1 int16:1 int32:1 uint8:1 uint16:3 uint32:1
BITWISE_XOR: broadcast rank 5, broadcast rank 6: int8:5 int16:5 int32:5 uint8:5 uint16:5 uint32:5
BROADCAST_ARGS: plain: int32 int64
BROADCAST_TO: plain, int64 index, rank 4, rank 4 int64 index, rank 5, rank 5 int64 index, rank 6, rank 6 int64 index: float32 float16 float64 int8 int16 int32 int64 uint8 uint16:3 uint32 uint64 bool complex64
BROADCAST_TO: none: float32:5
CAST: to bool, to complex64, to float32, to int16, to int32, to int64, to uint32, to uint8: float32 float16:1 float64:1 int8:1 int16 int32 int64 uint8 uint16:3 uint32 bool complex64
CAST: to float16, to float64, to int8, to uint16: float32:1 float16:1 float64:1 int8:1 int16:1 int32:1 int64:1 uint8:1 uint16:3 uint32:1 bool:1 complex64:1
CEIL: plain, empty, rank 6, scalar: float32
COMPLEX_ABS: plain: complex64
CONCATENATION: plain, empty part, rank 6: float32 float16:4 int8 int16 int32 int64 uint8 uint32:2 bool
CONV_2D: plain, run-time weights: float32
CONV_2D: grouped: float32:1
CONV_3D: plain: float32
CONV_3D_TRANSPOSE: plain: float32
COS: plain, empty, rank 6, scalar: float32 float16:5
CUMSUM: plain, exclusive, reverse: float32 int32 int64
DEPTHWISE_CONV_2D: plain: float32
DEPTH_TO_SPACE: plain: float32 int8 int32 int64 uint8
DILATE: plain: float32:3 float16:3 float64:3 int8:3 int16:3 int32:3 int64:3 uint8:3 uint16:3 uint32:3 uint64:3
DIV: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 int32
DIV: broadcast rank 6: float32:5 int32:5
DYNAMIC_UPDATE_SLICE: plain: float32:1 float16:4 float64:5 int8:1 int16:4 int32:1 int64:1 uint8:5 uint16:5 uint32:5 uint64:5 bool:1
DYNAMIC_UPDATE_SLICE: int64 index: float32:3 float16:4 float64:5 int8:3 int16:4 int32:3 int64:3 uint8:5 uint16:5 uint32:5 uint64:5 bool:3
ELU: plain, empty, rank 6, scalar: float32
EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int16:4 int32 int64 bool string
EQUAL: broadcast rank 5, broadcast rank 6: float32:5 float16:5 int16:5 int32:5 int64:5 bool:5 string:5
EXP: plain, empty, rank 6, scalar: float32
EXPAND_DIMS: plain, int64 index: float32 float16 float64 int8 int16 int32 int64 uint8 uint16:3 uint32 uint64 bool string complex64
FILL: plain, int64 index: float32 float16:1 float64:5 int8 int16 int32 int64 uint8:5 uint16:5 uint32:5 uint64:5 bool complex64:5
FLOOR: plain, empty, rank 6, scalar: float32 float16:4
FLOOR_DIV: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int8:1 int16:1 int32
FLOOR_DIV: broadcast rank 5, broadcast rank 6: float32:5 int8:5 int16:5 int32:5
FLOOR_MOD: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int8:1 int16:1 int32 int64
FLOOR_MOD: broadcast rank 5, broadcast rank 6: float32:5 int8:5 int16:5 int32:5 int64:5
FULLY_CONNECTED: plain, keep_num_dims, run-time weights: float32
GATHER: plain, axis, axis int64 index, batch, batch int64 index, int64 index: float32 float16:4 int8 int16 int32 int64 uint8 bool
GATHER_ND: plain, int64 index: float32 float16:4 int8 int16 int32 int64 uint8 bool:3 string
GELU: plain, empty, rank 6, scalar: float32:1 float16:5
GREATER: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int16:5 int32 int64
GREATER: broadcast rank 5, broadcast rank 6: float32:5 float16:5 int16:5 int32:5 int64:5
GREATER_EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int16:1 int32 int64
GREATER_EQUAL: broadcast rank 5, broadcast rank 6: float32:5 float16:5 int16:5 int32:5 int64:5
HARD_SWISH: plain, empty, rank 6, scalar: float32
IMAG: plain: complex64
L2_NORMALIZATION: plain: float32
L2_POOL_2D: plain: float32
LEAKY_RELU: plain: float32
LESS: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:4 int16:1 int32 int64
LESS: broadcast rank 5, broadcast rank 6: float32:5 float16:5 int16:5 int32:5 int64:5
LESS_EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int16:5 int32 int64
LESS_EQUAL: broadcast rank 5, broadcast rank 6: float32:5 float16:5 int16:5 int32:5 int64:5
LOCAL_RESPONSE_NORMALIZATION: plain: float32
LOG: plain: float32
LOGICAL_AND: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: bool
LOGICAL_AND: broadcast rank 5, broadcast rank 6: bool:5
LOGICAL_NOT: plain: bool
LOGICAL_OR: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: bool
LOGICAL_OR: broadcast rank 5, broadcast rank 6: bool:5
LOGISTIC: plain, empty, rank 6, scalar: float32 float16:4
LOG_SOFTMAX: plain, rank 1, rank 3, rank 4, rank 5: float32
MATRIX_DIAG: plain: float32 int8 int16 int32 int64 uint8 uint16:3 uint32
MAXIMUM: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:4 int8 int16 int32 int64 uint8
MAXIMUM: broadcast rank 6: float32:5 float16:5 int8:5 int16:5 int32:5 int64:5 uint8:5
MAX_POOL_2D: plain: float32 int8 int16
MEAN: plain, all axes, no keep_dims, rank 5, rank 6: float32 int32 int64
MINIMUM: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:4 int8 int16 int32 int64 uint8
MINIMUM: broadcast rank 6: float32:5 float16:5 int8:5 int16:5 int32:5 int64:5 uint8:5
MIRROR_PAD: reflect, reflect int64 index, symmetric, symmetric int64 index: float32 float16:5 float64:5 int8 int16:1 int32 int64 uint8 uint16:5 uint32:5 uint64:5
MUL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int32 int64 uint32:1 complex64:1
MUL: broadcast rank 5, broadcast rank 6: float32:3 float16:5 int32:3 int64:3 uint32:3 complex64:3
NEG: plain, empty, rank 6, scalar: float32 float16:4 int8:4 int16:4 int32 int64
NOT_EQUAL: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 float16:5 int32 int64 bool string
NOT_EQUAL: broadcast rank 5, broadcast rank 6: float32:5 float16:5 int32:5 int64:5 bool:5 string:5
ONE_HOT: plain, int64 index: float32 int8 int32 int64 uint8 bool
PACK: plain: float32 int8 int16 int32 int64 uint8 uint32:2
PAD: plain, rank 4, rank 5: float32 float16:4 int8 int16 int32 int64 uint8 bool:4
PAD: int64 index, rank 4 int64 index, rank 5 int64 index: float16:4 bool:4
PADV2: plain, rank 4, rank 5: float32 float16:4 int8 int16 int32 int64 uint8 bool:4
PADV2: int64 index, rank 4 int64 index, rank 5 int64 index: float16:4 bool:4
POW: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32
POW: broadcast rank 5, broadcast rank 6: float32:5 int32:5
PRELU: plain, rank 5: float32
RANGE: plain: float32 int32 int64:2
RANK: plain: float32 float16 float64 int8 int16 int32 int64 uint8 uint16:3 uint32 uint64 bool string complex64
REAL: plain: complex64
REDUCE_ALL: plain, all axes, no keep_dims, rank 5, rank 6: bool
REDUCE_ANY: plain, all axes, no keep_dims, rank 5, rank 6: bool
REDUCE_MAX: plain, all axes, no keep_dims, rank 5, rank 6: float32 int8 int16 int32 int64 uint8
REDUCE_MAX: none: float32:5
REDUCE_MIN: plain, all axes, no keep_dims, rank 5, rank 6: float32 int8 int16 int32 int64 uint8
REDUCE_MIN: none: float32:5
REDUCE_PROD: plain, all axes, no keep_dims, rank 5, rank 6: float32 int8 int16 int32 int64 uint8
RELU: plain, empty, rank 6, scalar: float32
RELU6: plain, empty, rank 6, scalar: float32
RELU_0_TO_1: plain, empty, rank 6, scalar: float32:1
RELU_N1_TO_1: plain, empty, rank 6, scalar: float32
RESHAPE: plain: float32 float16 float64 int8 int16 int32 int64 uint8 uint16:3 uint32 uint64 bool string complex64
RESIZE_BILINEAR: plain, half_pixel_centers: float32 int8 int16
RESIZE_BILINEAR: align_corners: float32
RESIZE_NEAREST_NEIGHBOR: plain, half_pixel_centers: float32 float16:5 int8 int16 int32:5 uint8 bool:5
REVERSE_SEQUENCE: plain, int64 index: float32 int16 int32 int64 uint8
REVERSE_V2: plain: float32 float16:4 int8 int16 int32 int64 uint8 bool
REVERSE_V2: two axes: float16:4
RIGHT_SHIFT: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: int8:1 int16:1 int32:1 uint8:1 uint16:3 uint32:1
RIGHT_SHIFT: broadcast rank 5, broadcast rank 6: int8:5 int16:5 int32:5 uint8:5 uint16:5 uint32:5
ROUND: plain, empty, halves, rank 6, scalar: float32 float16:4
RSQRT: plain: float32
SCATTER_ND: plain: float32 int8 int32 int64 uint8 bool:1
SCATTER_ND: adds duplicates: float32 int8 int32 int64 uint8
SEGMENT_SUM: plain: float32 int32
SELECT: plain: float32 float16:5 float64:5 int8 int16 int32 int64 uint8 uint16:5 uint32:2 uint64:5 bool complex64:5
SELECT_V2: plain, broadcast rank 3: float32 float16:5 float64:5 int8 int16 int32 int64 uint8 uint16:5 uint32:2 uint64:5 bool complex64:5
SELECT_V2: broadcast rank 5: float32:1 float16:5 float64:5 int8:1 int16:1 int32:1 int64:1 uint8:1 uint16:5 uint32:2 uint64:5 bool:1 complex64:5
SELECT_V2: broadcast rank 6: float32:5 float16:5 float64:5 int8:5 int16:5 int32:5 int64:5 uint8:5 uint16:5 uint32:5 uint64:5 bool:5 complex64:5
SHAPE: plain, int64 output: float32 float16 float64 int8 int16 int32 int64 uint8 uint16:3 uint32 uint64 bool string complex64
SIGN: plain, empty, rank 6, scalar: float32:1 float64:1 int32:1
SIN: plain, empty, rank 6, scalar: float32 float16:5
SLICE: plain, int64 index, rank 4, rank 4 int64 index, rank 5, rank 5 int64 index: float32 float16:4 float64:5 int8 int16 int32 int64 uint8 uint16:5 uint32:2 uint64:5 bool string complex64:5
SLICE: rank 6, rank 6 int64 index: float32:5 float16:5 float64:5 int8:5 int16:5 int32:5 int64:5 uint8:5 uint16:5 uint32:5 uint64:5 bool:5 string:5 complex64:5
SOFTMAX: plain, rank 1, rank 3, rank 4, rank 5: float32 float16:5
SPACE_TO_BATCH_ND: plain: float32 float16:5 float64:5 int8 int16:1 int32 int64 uint8 uint16:5 uint32:5 uint64:5
SPACE_TO_DEPTH: plain: float32 int8 int32 int64 uint8
SPLIT: plain: float32 int8 int16 int32 int64:3 uint8
SPLIT_V: plain: float32 int8 int16 int32 int64 uint8
SQRT: plain: float32
SQUARE: plain, empty, rank 6, scalar: float32
SQUARED_DIFFERENCE: plain, broadcast, empty, empty broadcast, rank 5, scalar, scalars: float32 int32
SQUARED_DIFFERENCE: broadcast rank 5, broadcast rank 6: float32:5 int32:5
SQUEEZE: plain: float32 float16 float64 int8 int16 int32 int64 uint8 uint16:3 uint32 uint64 bool string complex64
STRIDED_SLICE: plain, begin_mask end_mask, ellipsis_mask, new_axis_mask, rank 4, rank 5, shrink_axis_mask: float32 float16:4 float64:5 int8 int16 int32 int64 uint8 uint16:5 uint32:2 uint64:5 bool string complex64:5
STRIDED_SLICE: rank 6: float32:5 float16:5 float64:5 int8:5 int16:5 int32:5 int64:5 uint8:5 uint16:5 uint32:5 uint64:5 bool:5 string:5 complex64:5
SUB: plain, broadcast, broadcast rank 5, empty, empty broadcast, rank 5, scalar, scalars: float32 int32 int64
SUB: broadcast rank 6: float32:3 int32:3 int64:3
SUM: plain, all axes, no keep_dims, rank 5, rank 6: float32 int32 int64
TANH: plain, empty, rank 6, scalar: float32 float16:4
TILE: plain, int64 index, rank 4, rank 4 int64 index, rank 5, rank 5 int64 index, rank 6, rank 6 int64 index: float32 float16:5 float64:5 int8:1 int16:5 int32 int64 uint8 uint16:5 uint32:5 uint64:5 bool string complex64:5
TOPK_V2: plain: float32 int8 int16:1 int32 int64 uint8
TOPK_V2: none: float32:5 int8:5 int16:5 int32:5 int64:5 uint8:5
TRANSPOSE: plain, rank 4, rank 5: float32 float16:5 float64:5 int8 int16 int32 int64 uint8 uint16:5 uint32:5 uint64:5 bool complex64:5
TRANSPOSE: rank 6: float32:1 float16:5 float64:5 int8:1 int16:1 int32:1 int64:1 uint8:1 uint16:5 uint32:5 uint64:5 bool:1 complex64:5
TRANSPOSE: rank 7: float32:5 float16:5 float64:5 int8:5 int16:5 int32:5 int64:5 uint8:5 uint16:5 uint32:5 uint64:5 bool:5 complex64:5
TRANSPOSE_CONV: plain, bias: float32
UNIQUE: plain, int64 output: float32 int8 int16 int32 int64 uint8
UNPACK: plain: float32 float16:5 int8 int16 int32 uint8 bool
WHERE: plain: float32:1 int8:1 int32:1 int64:1 uint8:1 uint32:1 bool
ZEROS_LIKE: plain, empty, rank 6, scalar: float32 int32 int64
"""
