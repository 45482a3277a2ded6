"""The tables of the .tflite format, as text: a line per table, a word per slot, in the order of the slots.

A word is `name:type=default`. `[type]` is a vector. `<Union>` has two slots: the number of the member, and the member. `_` is a
deprecated slot. A capitalised type is an enumeration of `names` or another table of this file.
An indented line continues the line before. In a union, the member of the first line has the number 1.
"""

CORE = """
CustomQuantization custom:[uint8]
BlockwiseQuantization scales:int32 zero_points:int32 block_size:int32 block_shape:[int32]
MultiAxisQuantization scales:int32 zero_points:int32 block_size:int32 quantized_dimensions:[int32]
QuantizationParameters min:[float32] max:[float32] scale:[float32] zero_point:[int64] details:<QuantizationDetails>
    quantized_dimension:int32
Int32Vector values:[int32]
Uint16Vector values:[uint16]
Uint8Vector values:[uint8]
DimensionMetadata format:DimensionType dense_size:int32 array_segments:<SparseIndexVector>
    array_indices:<SparseIndexVector>
SparsityParameters traversal_order:[int32] block_map:[int32] dim_metadata:[DimensionMetadata]
VariantSubType shape:[int32] type:TensorType has_rank:bool
Tensor shape:[int32] type:TensorType buffer:uint32 name:string quantization:QuantizationParameters is_variable:bool
    sparsity:SparsityParameters shape_signature:[int32] has_rank:bool variant_tensors:[VariantSubType]
    external_buffer:uint32
OperatorCode deprecated_builtin_code:int8 custom_code:string version:int32=1 builtin_code:int32
Operator opcode_index:uint32 inputs:[int32] outputs:[int32] builtin_options:<BuiltinOptions> custom_options:[uint8]
    custom_options_format:int8 mutating_variable_inputs:[bool] intermediates:[int32]
    large_custom_options_offset:uint64 large_custom_options_size:uint64 builtin_options2:<BuiltinOptions2>
    debug_metadata_index:int32=-1
SubGraph tensors:[Tensor] inputs:[int32] outputs:[int32] operators:[Operator] name:string
    debug_metadata_index:int32=-1
Buffer data:[uint8] offset:uint64 size:uint64
ExternalBufferGroup name:string
ExternalBuffer id:uint32 group:uint32 offset:uint64 length:uint64 packing:string
Metadata name:string buffer:uint32
TensorMap name:string tensor_index:uint32
SignatureDef inputs:[TensorMap] outputs:[TensorMap] signature_key:string _:string subgraph_index:uint32
Model version:uint32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string buffers:[Buffer]
    metadata_buffer:[int32] metadata:[Metadata] signature_defs:[SignatureDef]
    external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
"""

BUILTIN_OPTIONS = """
Conv2DOptions padding:Padding stride_w:int32 stride_h:int32 fused_activation_function:Activation
    dilation_w_factor:int32=1 dilation_h_factor:int32=1 quantized_bias_type:TensorType
DepthwiseConv2DOptions padding:Padding stride_w:int32 stride_h:int32 depth_multiplier:int32
    fused_activation_function:Activation dilation_w_factor:int32=1 dilation_h_factor:int32=1
ConcatEmbeddingsOptions num_channels:int32 num_columns_per_channel:[int32] embedding_dim_per_channel:[int32]
LSHProjectionOptions type:LSHProjection
Pool2DOptions padding:Padding stride_w:int32 stride_h:int32 filter_width:int32 filter_height:int32
    fused_activation_function:Activation
SVDFOptions rank:int32 fused_activation_function:Activation asymmetric_quantize_inputs:bool
RNNOptions fused_activation_function:Activation asymmetric_quantize_inputs:bool
FullyConnectedOptions fused_activation_function:Activation weights_format:WeightsFormat keep_num_dims:bool
    asymmetric_quantize_inputs:bool quantized_bias_type:TensorType quant_spec:[uint8]
SoftmaxOptions beta:float32
ConcatenationOptions axis:int32 fused_activation_function:Activation
AddOptions fused_activation_function:Activation pot_scale_int16:bool=1
L2NormOptions fused_activation_function:Activation
LocalResponseNormalizationOptions radius:int32 bias:float32 alpha:float32 beta:float32
LSTMOptions fused_activation_function:Activation cell_clip:float32 proj_clip:float32 kernel_type:LSTMKernel
    asymmetric_quantize_inputs:bool
ResizeBilinearOptions _:float32 _:float32 align_corners:bool half_pixel_centers:bool
CallOptions subgraph:uint32
ReshapeOptions new_shape:[int32]
SkipGramOptions ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool
SpaceToDepthOptions block_size:int32
EmbeddingLookupSparseOptions combiner:Combiner
MulOptions fused_activation_function:Activation
PadOptions
GatherOptions axis:int32 batch_dims:int32
BatchToSpaceNDOptions
SpaceToBatchNDOptions
TransposeOptions
ReducerOptions keep_dims:bool
SubOptions fused_activation_function:Activation pot_scale_int16:bool=1
DivOptions fused_activation_function:Activation
SqueezeOptions squeeze_dims:[int32]
SequenceRNNOptions time_major:bool fused_activation_function:Activation asymmetric_quantize_inputs:bool
StridedSliceOptions begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32 shrink_axis_mask:int32
    offset:bool
ExpOptions
TopKV2Options
SplitOptions num_splits:int32
LogSoftmaxOptions
CastOptions in_data_type:TensorType out_data_type:TensorType
DequantizeOptions
MaximumMinimumOptions
ArgMaxOptions output_type:TensorType
LessOptions
NegOptions
PadV2Options
GreaterOptions
GreaterEqualOptions
LessEqualOptions
SelectOptions
SliceOptions
TransposeConvOptions padding:Padding stride_w:int32 stride_h:int32 fused_activation_function:Activation
    quantized_bias_type:TensorType
SparseToDenseOptions validate_indices:bool
TileOptions
ExpandDimsOptions
EqualOptions
NotEqualOptions
ShapeOptions out_type:TensorType
PowOptions
ArgMinOptions output_type:TensorType
FakeQuantOptions min:float32 max:float32 num_bits:int32 narrow_range:bool
PackOptions values_count:int32 axis:int32
LogicalOrOptions
OneHotOptions axis:int32
LogicalAndOptions
LogicalNotOptions
UnpackOptions num:int32 axis:int32
FloorDivOptions
SquareOptions
ZerosLikeOptions
FillOptions
BidirectionalSequenceLSTMOptions fused_activation_function:Activation cell_clip:float32 proj_clip:float32
    merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions time_major:bool fused_activation_function:Activation merge_outputs:bool
    asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions fused_activation_function:Activation cell_clip:float32 proj_clip:float32
    time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
FloorModOptions
RangeOptions
ResizeNearestNeighborOptions align_corners:bool half_pixel_centers:bool
LeakyReluOptions alpha:float32
SquaredDifferenceOptions
MirrorPadOptions mode:MirrorPadMode
AbsOptions
SplitVOptions num_splits:int32
UniqueOptions idx_out_type:TensorType=int32
ReverseV2Options
AddNOptions
GatherNdOptions
CosOptions
WhereOptions
RankOptions
ReverseSequenceOptions seq_dim:int32 batch_dim:int32
MatrixDiagOptions
QuantizeOptions
MatrixSetDiagOptions
HardSwishOptions
IfOptions then_subgraph_index:int32 else_subgraph_index:int32
WhileOptions cond_subgraph_index:int32 body_subgraph_index:int32
DepthToSpaceOptions block_size:int32
NonMaxSuppressionV4Options
NonMaxSuppressionV5Options
ScatterNdOptions
SelectV2Options
DensifyOptions
SegmentSumOptions
BatchMatMulOptions adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions exclusive:bool reverse:bool
CallOnceOptions init_subgraph_index:int32
BroadcastToOptions
Rfft2dOptions
Conv3DOptions padding:Padding stride_d:int32 stride_w:int32 stride_h:int32 fused_activation_function:Activation
    dilation_d_factor:int32=1 dilation_w_factor:int32=1 dilation_h_factor:int32=1
HashtableOptions table_id:int32 key_dtype:TensorType value_dtype:TensorType
HashtableFindOptions
HashtableImportOptions
HashtableSizeOptions
VarHandleOptions container:string shared_name:string
ReadVariableOptions
AssignVariableOptions
RandomOptions seed:int64 seed2:int64
BucketizeOptions boundaries:[float32]
GeluOptions approximate:bool
DynamicUpdateSliceOptions
UnsortedSegmentProdOptions
UnsortedSegmentMaxOptions
UnsortedSegmentMinOptions
UnsortedSegmentSumOptions
ATan2Options
SignOptions
BitcastOptions
BitwiseXorOptions
RightShiftOptions
"""

BUILTIN_OPTIONS_2 = """
StablehloConcatenateOptions dimension:int64
StablehloBroadcastInDimOptions broadcast_dimensions:[int64]
StablehloSliceOptions start_indices:[int64] limit_indices:[int64] strides:[int64]
StablehloConvolutionOptions window_strides:[int64] padding:[int64] lhs_dilation:[int64] rhs_dilation:[int64]
    window_reversal:[bool] input_batch_dimension:int64 input_feature_dimension:int64 input_spatial_dimensions:[int64]
    kernel_input_feature_dimension:int64 kernel_output_feature_dimension:int64 kernel_spatial_dimensions:[int64]
    output_batch_dimension:int64 output_feature_dimension:int64 output_spatial_dimensions:[int64]
    feature_group_count:int64 batch_group_count:int64 precision_config:[uint32]
StablehloCustomCallOptions call_target_name:string has_side_effect:bool backend_config:string api_version:int32
    called_computations:[int32] custom_attributes:[uint8]
StablehloReduceOptions dimensions:[int64] body_subgraph_index:int32
StablehloScatterOptions indices_are_sorted:bool update_window_dims:[int64] inserted_window_dims:[int64]
    scatter_dims_to_operand_dims:[int64] index_vector_dim:int64 unique_indices:bool
    update_computation_subgraph_index:int32
StablehloCompareOptions comparison_direction:Comparison compare_type:ComparisonType
StablehloDynamicSliceOptions slice_sizes:[int64]
StablehloPadOptions edge_padding_low:[int64] edge_padding_high:[int64] interior_padding:[int64]
StablehloIotaOptions iota_dimension:int64
StablehloDotGeneralOptions lhs_batching_dimensions:[int64] rhs_batching_dimensions:[int64]
    lhs_contracting_dimensions:[int64] rhs_contracting_dimensions:[int64] precision_config:[uint32]
StablehloReduceWindowOptions window_dimensions:[int64] window_strides:[int64] base_dilations:[int64]
    window_dilations:[int64] padding:[int64] body_subgraph_index:int32
StablehloSortOptions dimension:int64 is_stable:bool comparator_subgraph_index:int32
StablehloWhileOptions cond_subgraph_index:int32 body_subgraph_index:int32
StablehloGatherOptions offset_dims:[int64] collapsed_slice_dims:[int64] start_index_map:[int64] index_vector_dim:int64
    slice_sizes:[int64] indices_are_sorted:bool
StablehloTransposeOptions permutation:[int64]
DilateOptions
StablehloRngBitGeneratorOptions algorithm:RngAlgorithm
ReduceWindowOptions reduce_function:ReduceWindowFunction
StableHLOCompositeOptions name:string decomposition_subgraph_index:int32 composite_attributes:[uint8]
    composite_attributes_format:int8 version:int32
StablehloShiftLeftOptions
StablehloCaseOptions branch_subgraph_indices:[int32]
"""

UNIONS = {
    "BuiltinOptions": BUILTIN_OPTIONS,
    "BuiltinOptions2": BUILTIN_OPTIONS_2,
    "QuantizationDetails": "CustomQuantization\nBlockwiseQuantization\nMultiAxisQuantization",
    "SparseIndexVector": "Int32Vector\nUint16Vector\nUint8Vector",
}
"""Union -> its members, one per line. Only the first word of a line is the member's name."""
