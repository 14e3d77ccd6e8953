// Arguments that ATen would reject, or would not check, are refused by our rules with a message.
#include <limits>

#include <gtest/gtest.h>

#include "tests/sandbox/interpreter/operator_harness.hpp"

namespace cudal1::operator_tests {
namespace {

// clang-format off
const std::pair<const char*, const char*> refusals[] = {
    {R"(aten::mm | a=f[3,4] c=f[5,6] | {"self":"a","mat2":"c"})", "inner sizes 4 and 5 differ"},
    {R"(aten::mm | a=f[3,4] c=d[4,6] | {"self":"a","mat2":"c"})", "should have the same element type"},
    {R"(aten::mm | a=f[4] c=f[4,6] | {"self":"a","mat2":"c"})", "should have 2 dimensions"},
    {R"(aten::mm.dtype | a=f[3,4] c=f[4,6] | {"self":"a","mat2":"c","out_dtype":"float64"})", "products of float32 are float32"},
    {R"(aten::mm.dtype | a=i[3,4] c=i[4,6] | {"self":"a","mat2":"c","out_dtype":"float32"})", "only floating types"},
    {R"(aten::bmm | a=f[2,3,4] c=f[3,4,6] | {"self":"a","mat2":"c"})", "have 2 and 3 matrices"},
    {R"(aten::cudnn_convolution_add_relu | a=f[2,3,5,5] w=f[4,3,3,3] z=f[2,4,5,5] | {"self":"a","weight":"w","z":"z","alpha":null,"bias":null,"stride":[1,1],"padding":[0,0],"dilation":[1,1],"groups":1})",
     "z is float32[2, 4, 5, 5], but should have shape [2, 4, 3, 3]"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5] w=f[4,4,3] | {"input":"a","weight":"w","operands":[],"stride":[1],"padding":[0],"dilation":[1],"transposed":false,"output_padding":[0],"groups":1,"graph":"relu","engine":0})-", "weight is"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu","engine":0})-", "stride should have 2 numbers"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[1,0],"groups":1,"graph":"relu","engine":0})-", "output_padding should be 0"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,3,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu","engine":0})-", "do not fit weight"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] b=f[4] | {"input":"a","weight":"w","operands":["b"],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"add(0)","engine":0})-", "should have shape [6] or [2, 6, 3, 4]"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] b=h[6] | {"input":"a","weight":"w","operands":["b"],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"add(0)","engine":0})-", "should have the same element type"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] b=f[6] | {"input":"a","weight":"w","operands":["b"],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu","engine":0})-", "no function uses operand 0"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"add(0)","engine":0})-", "there is no operand 0"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu  tanh","engine":0})-", "is no function"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"cosine","engine":0})-", "is no function of a chain"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"clamp(1)","engine":0})-", "should have 2 arguments"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"scale(x)","engine":0})-", "should have a number"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"scale(nan)","engine":0})-", "a number that is none"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"scale(2","engine":0})-", "no closing parenthesis"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"add(z)","engine":0})-", "should name an operand"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu relu relu relu relu relu relu relu relu relu relu relu relu relu relu relu relu","engine":0})-", "longer than 16"},
    {R"-(cudal1::convolution_graph | a=f[2,4,5,6] w=f[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu","engine":64})-", "engine is 64"},
    {R"-(cudal1::convolution_graph | a=i[2,4,5,6] w=i[6,4,3,3] | {"input":"a","weight":"w","operands":[],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,"graph":"relu","engine":0})-", "input is"},
    {R"(aten::cudnn_convolution_relu | a=f[2,3,5] w=f[4,3,3] | {"self":"a","weight":"w","bias":null,"stride":[1],"padding":[0],"dilation":[1],"groups":1})",
     "should have 4 dimensions"},
    {R"(aten::addmm | b=f[7] a=f[3,4] c=f[4,6] | {"self":"b","mat1":"a","mat2":"c"})", "do not broadcast"},
    {R"(aten::linear | a=f[3,4] w=f[5,4] b=f[4] | {"input":"a","weight":"w","bias":"b"})", "should have shape [5]"},
    {R"(aten::matmul | a=f[2,3,4] c=f[3,4,5] | {"self":"a","other":"c"})", "do not broadcast"},
    {R"(aten::add.Tensor | a=f[3,4] c=f[5] | {"self":"a","other":"c"})", "do not broadcast together"},
    {R"(aten::add.Scalar | a=c[3] | {"self":"a","other":300})", "which int8 cannot hold"},
    {R"(aten::sub.Tensor | a=b[3] c=b[3] | {"self":"a","other":"c"})", "takes integer and floating types only"},
    {R"(aten::add.Tensor | a=i[3] c=i[3] | {"self":"a","other":"c","alpha":0.5})", "alpha is the real number"},
    {R"(aten::floor_divide | a=b[3] c=b[3] | {"self":"a","other":"c"})", "integer and floating types only"},
    {R"(aten::where.self | m=f[3] a=f[3] c=f[3] | {"condition":"m","self":"a","other":"c"})", "bool only"},
    {R"(aten::sum.dim_IntList | a=f[3,4] | {"self":"a","dim":[2]})", "should lie in -2 to 1"},
    {R"(aten::sum.dim_IntList | a=f[3,4] | {"self":"a","dim":[0,-2]})", "names dimension 0 twice"},
    {R"(aten::mean | a=i[3,4] | {"self":"a"})", "floating types only"},
    {R"(aten::softmax.int | a=f[3,4] | {"self":"a","dim":5})", "should lie in -2 to 1"},
    {R"(aten::view | a=f[3,4] | {"self":"a","size":[5,-1]})", "does not hold the 12 elements"},
    {R"(aten::view | a=f[3,4]:1,3 | {"self":"a","size":[12]})", "use reshape"},
    {R"(aten::view | a=f[3,4] | {"self":"a","size":[-1,-1]})", "more than one -1"},
    {R"(aten::expand | a=f[3,4] | {"self":"a","size":[3,5]})", "does not fit self"},
    {R"(aten::permute | a=f[3,4] | {"self":"a","dims":[0]})", "2 dimensions"},
    {R"(aten::select.int | a=f[3,4] | {"self":"a","dim":0,"index":3})", "index is 3"},
    {R"(aten::slice.Tensor | a=f[3,4] | {"self":"a","start":3})", "is empty"},
    {R"(aten::narrow | a=f[3,4] | {"self":"a","dim":0,"start":1,"length":3})", "length is 3"},
    {R"(aten::diagonal | a=f[3,4] | {"self":"a","offset":9})", "has no elements"},
    {R"(aten::conv2d | a=f[1,4,8,8] w=f[6,3,3,3] | {"input":"a","weight":"w"})", "do not fit weight"},
    {R"(aten::conv2d | a=f[1,4,2,2] w=f[6,4,3,3] | {"input":"a","weight":"w"})", "does not fit dimension 2"},
    {R"(aten::conv2d | a=f[1,4,8,8] w=f[6,4,3,3] | {"input":"a","weight":"w","stride":0})", "should be positive"},
    {R"(aten::conv2d | a=f[1,4,8,8] w=f[6,4,3,3] | {"input":"a","weight":"w","groups":0})", "groups is 0"},
    {R"(aten::avg_pool3d | a=f[1,4,8,8,8]:2048,1,256,32,4 | {"self":"a","kernel_size":2})", "channels-last operands"},
    {R"(aten::conv_transpose1d | a=f[1,4,8] w=f[4,3,3] | {"input":"a","weight":"w","output_padding":1})", "should be smaller"},
    {R"(aten::max_pool2d | a=f[1,4,8,8] | {"self":"a","kernel_size":2,"padding":2})", "at most half"},
    {R"(aten::max_pool2d | a=f[1,4,8,8] | {"self":"a","kernel_size":9})", "does not fit"},
    {R"(aten::avg_pool2d | a=f[1,4,8,8] | {"self":"a","kernel_size":2,"divisor_override":0})", "should not be 0"},
    {R"(aten::layer_norm | a=f[3,4] | {"input":"a","normalized_shape":[3]})", "should be the end of the shape"},
    {R"(aten::layer_norm | a=f[3,4] w=f[3] | {"input":"a","normalized_shape":[4],"weight":"w"})", "should have shape [4]"},
    {R"(aten::group_norm | a=f[2,6,4] | {"input":"a","num_groups":4})", "should divide the 6 channels"},
    {R"(aten::batch_norm | a=f[2,6,4] m=f[6] v=f[6] | {"input":"a","weight":null,"bias":null,"running_mean":"m","running_var":"v","training":true,"momentum":0.1,"eps":1e-5,"cudnn_enabled":false})", "would update it"},
    {R"(aten::dropout | a=f[3] | {"input":"a","p":0.5,"train":true})", "live randomness"},
    {R"(aten::scaled_dot_product_attention | q=f[1,2,3,4] k=f[1,2,3,5] v=f[1,2,3,5] | {"query":"q","key":"k","value":"v"})", "should agree"},
    {R"(aten::embedding | w=f[7,3] i=f[2] | {"weight":"w","indices":"i"})", "should be int64 or int32"},
    {R"(aten::gather | a=f[4,5] i=l[5,5] | {"self":"a","dim":1,"index":"i"})", "larger than self"},
    {R"(aten::gather | a=f[4,5] i=l[4] | {"self":"a","dim":1,"index":"i"})", "should have 2 dimensions"},
    {R"(aten::cross_entropy_loss | a=f[4,5] t=l[5] | {"self":"a","target":"t"})", "should have shape [4]"},
    {R"(aten::cat | a=f[2,3] c=f[2,4] | {"tensors":["a","c"]})", "differ in more than dimension 0"},
    {R"(aten::cat | a=f[2,3] | {"tensors":[]})", "should not be empty"},
    {R"(aten::pad | a=i[2,3] | {"self":"a","pad":[1,0],"value":0.5})", "value is the real number"},
    {R"(aten::constant_pad_nd | a=f[2,3] | {"self":"a","pad":[1]})", "two for each"},
    {R"(aten::constant_pad_nd | a=f[2,3] | {"self":"a","pad":[9223372036854775807,1]})", "out of any useful range"},
    {R"(aten::repeat | a=f[2,3] | {"self":"a","repeats":[2]})", "more dimensions"},
    {R"(aten::topk | a=f[2,3] | {"self":"a","k":4})", "should lie in 1 to 3"},
    {R"(aten::arange.start_step | a=f[1] | {"start":0,"end":5,"step":0})", "should go up"},
    {R"(aten::full | a=f[1] | {"size":[-2],"fill_value":1})", "should be positive"},
    {R"(aten::relu | a=f[0,3] | {"self":"a"})", "without elements"},
    {R"(aten::contiguous | a=f[3,4] | {"self":"a","memory_format":"channels_last"})", "should have 4 dimensions"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,5] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "params[0] is float32[16, 5], but should have shape [16, 3]"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[12,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "should have shape [16, 4]"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "params has 2 tensors, but should have 4"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "params has 5 tensors"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":true,"batch_first":false})", "should have shape [2, 2, 4]"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":0,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "num_layers is 0"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":2,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "should have shape [2, 2, 4]"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "should have two"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":true})", "should have shape [1, 5, 4]"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,5] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "hx[1] is"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4]:8,1,2 c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "must be contiguous"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=d[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "should have the same element type"},
    {R"(aten::lstm.input | x=f[5,2,3] h=f[1,2,4] c=f[1,2,4] p=f[16,3] q=f[16,4] r=f[16] s=f[16] | {"input":"x","hx":["h","c"],"params":["p","q","r","s"],"has_biases":true,"num_layers":1,"dropout":0.5,"train":true,"bidirectional":false,"batch_first":false})", "live randomness"},
    {R"(aten::gru.input | x=f[5,2,3] h=f[1,2,4] p=f[16,3] q=f[12,4] | {"input":"x","hx":"h","params":["p","q"],"has_biases":false,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "should have shape [12, 3]"},
    {R"(aten::rnn_tanh.input | x=f[5,3] h=f[1,2,4] p=f[4,3] q=f[4,4] | {"input":"x","hx":"h","params":["p","q"],"has_biases":false,"num_layers":1,"dropout":0.0,"train":false,"bidirectional":false,"batch_first":false})", "should have 3 dimensions"},
    {R"(aten::lstm_cell | x=f[2,3] h=f[2,4] c=f[2,4] w=f[16,3] v=f[16,5] | {"input":"x","hx":["h","c"],"w_ih":"w","w_hh":"v"})", "should have shape [16, 4]"},
    {R"(aten::gru_cell | x=f[2,3] h=f[2,4] w=f[12,3] v=f[12,4] b=f[12] | {"input":"x","hx":"h","w_ih":"w","w_hh":"v","b_ih":"b"})", "or neither"},
    {R"(aten::split.Tensor | a=f[4,6] | {"self":"a","split_size":0})", "split_size is 0"},
    {R"(aten::split.Tensor | a=f[4,6] | {"self":"a","split_size":2,"dim":2})", "should lie in -2 to 1"},
    {R"(aten::split.Tensor | a=f[] | {"self":"a","split_size":2})", "dimensions"},
    {R"(aten::split_with_sizes | a=f[4,6] | {"self":"a","split_sizes":[2,3]})", "should add up to 4"},
    {R"(aten::split_with_sizes | a=f[4,6] | {"self":"a","split_sizes":[0,4]})", "should be positive"},
    {R"(aten::chunk | a=f[4,6] | {"self":"a","chunks":0})", "chunks is 0"},
    {R"(aten::tensor_split.sections | a=f[4,6] | {"self":"a","sections":5})", "should lie in 1 to 4"},
    {R"(aten::unbind.int | a=f[2000] | {"self":"a"})", "above our limit"},
    {R"(aten::unfold | a=f[4] | {"self":"a","dimension":0,"size":5,"step":1})", "size is 5"},
    {R"(aten::unfold | a=f[4] | {"self":"a","dimension":0,"size":2,"step":0})", "step is 0"},
    {R"(aten::movedim.intlist | a=f[4,5] | {"self":"a","source":[0,1],"destination":[1]})", "source has 2 numbers"},
    {R"(aten::view_as | a=f[4,6]:1,4 c=f[24] | {"self":"a","other":"c"})", "use reshape"},
    {R"(aten::einsum | a=f[3,4] c=f[5,6] | {"equation":"ij,jk","tensors":["a","c"]})", "do not broadcast"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"ij,jk","tensors":["a"]})", "names 2 operands, but 1 are given"},
    {R"(aten::einsum | a=f[3,4] c=f[4,6] | {"equation":"ijk,jk","tensors":["a","c"]})", "names 3 dimensions of operand 0"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"ij->ijk","tensors":["a"]})", "in an operand"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"ij->ii","tensors":["a"]})", "appear there once"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"i1->i","tensors":["a"]})", "should have letters"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"ii->","tensors":["a"]})", "should have the same size"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"ij->ji","tensors":["a"]})", "use permute"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"ij->->i","tensors":["a"]})", "should have letters"},
    {R"(aten::einsum | a=f[3,4] c=d[4,5] | {"equation":"ij,jk","tensors":["a","c"]})", "should have the same element type"},
    {R"(aten::einsum | a=f[3,4] | {"equation":"","tensors":[]})", "should not be empty"},
    {R"(aten::tensordot | a=f[3,4] c=f[5,6] | {"self":"a","other":"c","dims_self":[1],"dims_other":[0]})", "inner sizes 4 and 5 differ"},
    {R"(aten::bilinear | a=f[6,3] c=f[6,4] w=f[5,4,3] | {"input1":"a","input2":"c","weight":"w"})", "inner sizes 3 and 4 differ"},
    {R"(aten::bilinear | a=f[6,3] c=f[5,4] w=f[5,3,4] | {"input1":"a","input2":"c","weight":"w"})", "in the last dimension only"},
    {R"(aten::addmv | b=f[4] a=f[3,4] v=f[4] | {"self":"b","mat":"a","vec":"v"})", "do not broadcast"},
    {R"(aten::scaled_dot_product_attention | q=f[1,2,3,4] k=f[1,2,3,4] v=f[1,2,3,4] m=f[3,5] | {"query":"q","key":"k","value":"v","attn_mask":"m"})", "do not broadcast"},
    {R"(aten::scaled_dot_product_attention | q=f[1,2,3,4] k=f[1,2,3,4] v=f[1,2,3,4] m=f[3,3] | {"query":"q","key":"k","value":"v","attn_mask":"m","is_causal":true})", "exclude each other"},
    {R"(aten::index.Tensor | a=f[3,4] i=b[3,4] | {"self":"a","indices":["i"]})", "is a mask"},
    {R"(aten::index.Tensor | a=f[3] i=l[3] j=l[3] | {"self":"a","indices":["i","j"]})", "fewer dimensions"},
    {R"(aten::index.Tensor | a=f[3,4] i=l[3] j=l[2] | {"self":"a","indices":["i","j"]})", "do not broadcast"},
    {R"(aten::scatter.src | a=f[3,4] i=l[4,2] s=f[4,4] | {"self":"a","dim":1,"index":"i","src":"s"})", "larger than self"},
    {R"(aten::scatter.src | a=f[3,4] i=l[3,2] s=f[3,1] | {"self":"a","dim":1,"index":"i","src":"s"})", "larger than src"},
    {R"(aten::index_add | a=f[3,4] i=l[2] s=f[3,4] | {"self":"a","dim":0,"index":"i","source":"s"})", "should have shape [2, 4]"},
    {R"(aten::slice_scatter | a=f[3,4] s=f[3,4] | {"self":"a","src":"s","start":1})", "should have shape [2, 4]"},
    {R"(aten::one_hot | a=l[3] | {"self":"a"})", "num_classes is -1"},
    {R"(aten::repeat_interleave.self_int | a=f[3] | {"self":"a","repeats":0})", "repeats is 0"},
    {R"(aten::pad | a=f[2,4,5] | {"self":"a","pad":[5,0],"mode":"reflect"})", "may be at most 4"},
    {R"(aten::reflection_pad1d | a=f[2,4,5] | {"self":"a","padding":[5,0]})", "may be at most 4"},
    {R"(aten::constant_pad_nd | a=f[2,4] | {"self":"a","pad":[-5,2]})", "takes 5 elements from 4"},
    {R"(aten::constant_pad_nd | a=f[2,4] | {"self":"a","pad":[-2,-2]})", "should be positive"},
    {R"(aten::index_put | a=f[4,5] i=l[3]<4 v=f[3,4] | {"self":"a","indices":["i"],"values":"v"})", "do not broadcast"},
    {R"(aten::index_put | a=f[4,5] m=b[4] v=f[] | {"self":"a","indices":["m"],"values":"v"})", "is a mask"},
    {R"(aten::masked_scatter | a=f[4,5] m=b[5] s=f[19] | {"self":"a","mask":"m","source":"s"})", "an element for each"},
    {R"(aten::scatter_reduce.two | a=f[4,5] i=l[4,3]<5 s=f[4,3] | {"self":"a","dim":1,"index":"i","src":"s","reduce":"max"})", "should be one of sum"},
    {R"(aten::grid_sampler_2d | a=f[2,3,5,6] g=f[2,4,7,3] | {"input":"a","grid":"g","interpolation_mode":0,"padding_mode":0,"align_corners":false})", "2 coordinates"},
    {R"(aten::upsample_bilinear2d | a=f[1,2,4,4] | {"self":"a","output_size":[4,4],"align_corners":false,"scales_h":0.1})", "to 0.4, but output_size is 4"},
    {R"(aten::median | a=f[4]:0 | {"self":"a"})", "must be contiguous"},
    {R"(aten::layer_norm | a=h[3,4] w=d[4] | {"input":"a","normalized_shape":[4],"weight":"w"})", "should have the same element type"},
    {R"(aten::scaled_dot_product_attention | q=f[2,5,3,4] k=f[2,3,3,4] v=f[2,3,3,4] | {"query":"q","key":"k","value":"v","enable_gqa":true})", "should agree"},
    {R"(aten::pad | a=f[2,4,5] | {"self":"a","pad":[6,0],"mode":"circular"})", "may be at most 5"},
    {R"(aten::pad | a=f[4,5] | {"self":"a","pad":[1,1],"mode":"circular"})", "should have 3 dimensions"},
    {R"(aten::pad | a=f[4,5] | {"self":"a","pad":[1,1],"mode":"mirror"})", "mode is \"mirror\""},
    {R"(aten::upsample_nearest2d.vec | a=f[1,2,3,4] | {"input":"a","output_size":null,"scale_factors":null})", "one of output_size"},
    {R"(aten::upsample_nearest2d.vec | a=f[1,2,3,4] | {"input":"a","output_size":[3],"scale_factors":null})", "should have 2 numbers"},
    {R"(aten::upsample_bilinear2d.vec | a=f[1,2,3,4] | {"input":"a","output_size":null,"align_corners":false,"scale_factors":[0.1,1.0]})", "make a size of"},
    {R"(aten::adaptive_max_pool2d | a=f[1,2,3,4] | {"self":"a","output_size":0})", "should be positive"},
    {R"(aten::pixel_shuffle | a=f[1,6,3,4] | {"self":"a","upscale_factor":2})", "divisible by 4"},
    {R"(aten::channel_shuffle | a=f[1,6,3,4] | {"self":"a","groups":4})", "should divide the 6 channels"},
    {R"(aten::im2col | a=f[3,4,4] | {"self":"a","kernel_size":5,"dilation":1,"padding":0,"stride":1})", "does not fit"},
    {R"(aten::col2im | a=f[1,18,5] | {"self":"a","output_size":[4,5],"kernel_size":3,"dilation":1,"padding":0,"stride":1})", "should have 6 columns"},
    {R"(aten::cosine_embedding_loss | a=f[4,5] b=f[4,5] t=f[5] | {"input1":"a","input2":"b","target":"t"})", "should have shape [4]"},
    {R"(aten::multi_margin_loss | a=f[4,5] t=l[4] | {"self":"a","target":"t","p":3})", "p should be 1 or 2"},
};
// clang-format on

TEST(operator_refusals, say_what_is_wrong) {
  for (const auto& [line, wanted] : refusals) {
    SCOPED_TRACE(line);
    const auto typed = typed_by_rule(parse_case(line));
    ASSERT_FALSE(typed);
    EXPECT_NE(typed.error().message.find(wanted), std::string::npos) << typed.error().message;
    EXPECT_NE(typed.error().code, errc::infrastructure);
  }
}

// Extreme integers in every integer argument of every operator cause neither a crash nor an overflow.
TEST(operator_refusals, extreme_numbers_are_handled) {
  const std::vector<int64_t> extremes{0,
                                      -1,
                                      std::numeric_limits<int64_t>::max(),
                                      std::numeric_limits<int64_t>::min(),
                                      1 << 30,
                                      int64_t{1} << 31,
                                      -(int64_t{1} << 31)};
  for (const auto& [name, info] : operator_table())
    for (const auto extreme : extremes)
      for (const std::vector<int64_t>& shape :
           {std::vector<int64_t>{2, 3, 4, 5}, std::vector<int64_t>{int64_t{1} << 31, int64_t{1} << 31}}) {
        operator_call call{&info, {}};
        for (const auto& a : info.schema.arguments) {
          const tensor_argument t{"t", contiguous(dtype::float32, shape)};
          switch (a.type) {
            case schema_type::tensor:
              call.arguments.emplace_back(t);
              break;
            case schema_type::tensor_list:
              call.arguments.emplace_back(std::vector<tensor_argument>{t, t});
              break;
            case schema_type::integer:
              call.arguments.emplace_back(scalar_value(extreme));
              break;
            case schema_type::integer_list:
              call.arguments.emplace_back(std::vector<int64_t>{extreme, extreme});
              break;
            case schema_type::boolean:
              call.arguments.emplace_back(scalar_value(false));
              break;
            case schema_type::real:
              call.arguments.emplace_back(scalar_value(0.5));
              break;
            case schema_type::scalar:
              call.arguments.emplace_back(scalar_value(extreme));
              break;
            case schema_type::string:
              call.arguments.emplace_back(std::string("same"));
              break;
            default:
              call.arguments.emplace_back(std::monostate());
          }
        }
        if (name == "aten::to.dtype") call.arguments[1] = dtype::float64;
        const auto typed = info.rule(call);
        EXPECT_TRUE(typed || typed.error().code != errc::infrastructure)
            << name << (typed ? "" : ": " + typed.error().message);
      }
}

}  // namespace
}  // namespace cudal1::operator_tests
