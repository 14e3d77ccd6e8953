"""The models: 20 of torchvision, 20 of timm, 20 of transformers, 20 modules as people write them."""

import module_rows
import timm_rows
import torchvision_rows
import transformers_rows
from row import Row

ROWS: list[Row] = [*torchvision_rows.ROWS, *timm_rows.ROWS, *transformers_rows.ROWS, *module_rows.ROWS]
