#!/usr/bin/env python3
"""Each fault that ptxas.py looks for, planted once in a log that is sound without it."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ptxas  # noqa: E402

KERNELS = {"AddBias": False, "ClipScale": True}
SOUND = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN5EntryINS_4body7AddBiasEEE' for 'sm_90'
ptxas info    : Function properties for _ZN5EntryINS_4body7AddBiasEEE
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 384 bytes cmem[0]
ptxas info    : Compiling entry function '_ZN5EntryINS_4body9ClipScaleEEE' for 'sm_90'
ptxas info    : Function properties for _ZN5EntryINS_4body9ClipScaleEEE
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
"""


def found(log):
    return list(ptxas.findings(log, KERNELS, 256))


class PtxasTest(unittest.TestCase):
    def test_a_sound_log_has_no_findings(self):
        self.assertEqual(found(SOUND), [])

    def test_spills_are_found(self):
        log = SOUND.replace("0 bytes spill stores, 0 bytes spill loads", "8 bytes spill stores, 12 bytes spill loads", 1)
        self.assertEqual(found(log), ["AddBias for sm_90: 20 bytes are spilled"])

    def test_spills_of_a_function_that_a_kernel_calls_are_found(self):
        log = SOUND.replace("ptxas info    : Used 32", "    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
                            "ptxas info    : Used 32")
        self.assertEqual(found(log), ["AddBias for sm_90: 8 bytes are spilled"])

    def test_too_much_shared_memory_is_found(self):
        self.assertEqual(found(SOUND.replace("1024 bytes smem", "49153 bytes smem")),
                         ["ClipScale for sm_90: 49153 bytes of static shared memory, at most 49152"])

    def test_too_many_registers_are_found(self):
        self.assertEqual(found(SOUND.replace("Used 40 registers", "Used 257 registers")),
                         ["ClipScale for sm_90: 257 registers x 256 threads, at most 65536"])

    def test_a_removed_barrier_is_found(self):
        self.assertEqual(found(SOUND.replace("used 1 barriers", "used 0 barriers")),
                         ["ClipScale for sm_90: no barrier, but its body says that it synchronises"])

    def test_a_barrier_that_the_body_does_not_know_of_is_found(self):
        self.assertEqual(found(SOUND.replace("used 0 barriers", "used 1 barriers")),
                         ["AddBias for sm_90: a barrier, but its body says that it does not synchronise"])

    def test_a_kernel_that_the_log_does_not_name_is_found(self):
        log = SOUND[:SOUND.index("ptxas info    : Compiling entry function '_ZN5EntryINS_4body9ClipScale")]
        self.assertEqual(found(log), ["ClipScale for sm_90: 0 entries in the log, not 1"])

    def test_an_empty_log_is_no_pass(self):
        self.assertEqual(found(""), ["the log names no kernel"])

    def test_the_list_and_its_barriers_are_read_from_the_source(self):
        kernels = ptxas.kernels_of(ptxas.ROOT)
        self.assertGreater(len(kernels), 30)
        self.assertTrue(kernels["NormStatistics"])
        self.assertFalse(kernels["AddBias"])
        self.assertEqual(ptxas.block_threads(ptxas.ROOT), 256)


if __name__ == "__main__":
    unittest.main()
