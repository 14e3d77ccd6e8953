namespace {

CUtensorMapDataType element_of_map(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case at::kBFloat16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case at::kDouble:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case at::kInt:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case at::kLong:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case at::kByte:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

// An argument in place of the tensor's pointer. The compiler knows the map of a kernel's parameter by another name; its
// bytes are the same.
CUtensorMap mapped(const at::Tensor& t, std::vector<int64_t> box, int64_t swizzle) {
  return map_of({element_of_map(t.scalar_type()), static_cast<int64_t>(t.element_size()), t.sizes().vec(),
                 t.strides().vec(), std::move(box), swizzle},
                t.const_data_ptr());
}

}  // namespace
