#!/usr/bin/env python3
"""Writes the prompts of a node's tasks as verl reads them: rows of a parquet file.

    verl_data.py FILE.parquet --task NAME... [--rows 1000]

README.md beside this file has the command that trains on it.
"""

import argparse

from datasets import Dataset

from cudal1.adapters import Judge


def verl_rows(tasks, count, judge):
    out = []
    for i in range(count):
        task = tasks[i % len(tasks)]
        out.append({"data_source": "cudal1", "prompt": [{"role": "user", "content": judge.prompt(task, contrastive=True)}],
                    "ability": "code", "reward_model": {"style": "rule", "ground_truth": task},
                    "extra_info": {"index": i}})
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--task", required=True, action="append")
    p.add_argument("--rows", type=int, default=1000)
    o = p.parse_args()
    Dataset.from_list(verl_rows(o.task, o.rows, Judge())).to_parquet(o.file)
    print(f"{o.file}: {o.rows} rows of {', '.join(o.task)}")


if __name__ == "__main__":
    main()
