"""What users of other rewriters report, and the tests that hold it here (data).

A number is an issue of pytorch/pytorch unless a repository is named. Each row names the symptom and tests by
``file::test`` (without ``tests/test_`` and ``test_``), or says why it cannot occur: nothing here traces a pattern or a
replacement, so what goes wrong in tracing them has no place to happen.
"""

from __future__ import annotations

from attrs import frozen

OWN = "user_reports"


@frozen
class Report:
    """One symptom; where it is held, or why it cannot occur."""

    sources: str
    symptom: str
    tests: str = ""
    impossible: str = ""


def _own(sources: str, symptom: str, test: str, *more: str) -> Report:
    return Report(sources, symptom, " ".join((f"{OWN}::{test}", *more)))


def _more(sources: str, symptom: str, test: str) -> Report:
    return Report(sources, symptom, f"more_user_reports::{test}")


REPORTS = (
    _own("159613", "back-to-back matches leave an erased node in a list", "matches_in_a_row_that_meet_in_a_list"),
    Report("97817", "an identity rule tracks the whole graph as its replacement",
           "surgery::a_variable_as_the_replacement_makes_no_node"),
    _own("98974", "later matches point to erased nodes", "overlapping_matches_are_looked_for_anew"),
    _own("104775", "a match leaves out an op of the pattern", "a_pattern_whose_op_the_model_lacks_does_not_match"),
    _own("108163", "a torch-level pattern is silent on an exported graph", "a_rule_that_finds_nothing_says_so",
         "surgery::one_rule_at_every_level"),
    _own("78201 139163", "nn.Sequential: modules are compared by path", "modules_are_matched_by_class_and_not_by_path"),
    _own("68534", "get_attr is compared by name", "parameters_are_matched_by_what_they_are_and_not_by_name"),
    Report("93002", "a replacement that is a custom kernel cannot be traced",
           "registered::a_registered_op_is_matched_and_written_by_its_name"),
    _own("100419", "constant arguments cannot be matched", "a_literal_is_captured_by_name_and_carried_over"),
    _own("PR-143147", "literals are burned into patterns", "layer_norm_of_any_shape_and_eps_is_one_rule"),
    Report("97894", "scalar arguments are lost in tracing and need magic numbers", f"{OWN}::"
           "a_literal_is_captured_by_name_and_carried_over", "patterns are read, not traced"),
    _own("ao-4790", "any literal matches and is replaced by a default", "a_literal_that_is_not_named_must_be_equal"),
    Report("69577", "conditions on matches are wanted", "guards::where_gives_its_reason"),
    _own("69025", "some sites are to be left out", "a_site_is_left_out_by_its_module_path"),
    _more("PR-135553", "the replacement depends on matched shapes", "a_replacement_is_computed_from_matched_shapes"),
    Report("kernl-180", "weights of matched modules are needed on the right",
           "owners::conv_and_norm_are_folded_in_a_traced_module"),
    _own("PR-112409", "code is generated once for each small pattern", "code_is_generated_once_for_all_rules"),
    _own("PR-99431 104391", "omitted defaults and other spellings do not match",
         "addmm_is_one_op_however_it_is_spelled"),
    _own("167313", "addmm with alpha or beta loses it", "addmm_with_alpha_is_not_taken_for_plain_addmm"),
    _own("196165", "conv_bn drops keyword arguments of the convolution", "conv_bn_keeps_keyword_arguments"),
    _own("169011", "batch_norm with three arguments crashes", "batch_norm_with_three_arguments_is_folded"),
    Report("195320 195282 PR-191260", "a permuted key is taken for a transposed one",
           "models::a_key_permuted_on_other_axes_is_not_fused models::the_permutation_changes_the_model"),
    _more("195782", "a commuted mask addition is missed", "a_mask_is_added_in_either_order"),
    Report("119760", "GPT-2's attention is not matched, and nothing says why",
           "models::every_layer_is_fused more_user_reports::a_refusal_names_node_and_condition"),
    Report("117735", "constants in patterns are not implemented",
           "owners::conv_and_norm_are_folded_in_a_traced_module"),
    Report("111190", "sizes that are read count as users", "guards::observers_are_no_readers"),
    Report("136329", "dynamic sizes match in the wrong stage only", "models::sizes_may_be_symbolic"),
    _more("151649", "reshape in a pattern becomes view and cannot match itself",
          "reshape_in_a_pattern_matches_reshape"),
    Report("149879", "ops without a used result vanish from patterns",
           "exact_targets::a_mutable_op_is_replaced_by_one_that_writes_to_the_same_memory"),
    _more("137229 132867", "an argument called out is taken for a write", "an_argument_called_out_is_no_write"),
    Report("132932", "later matches cross the write of a new op",
           "exact_targets::a_new_write_is_a_barrier_for_later_rules"),
    Report("101124", "matches cross a write", "hostile_graphs::a_write_to_what_a_match_reads_stops_it"),
    Report("137280 162019 148751", "users stand before a new node of several results",
           "results::what_reads_a_result_too_early_moves_behind_the_replacement "
           "surgery::results_of_a_tuple_op_are_taken_apart"),
    Report("167776", "rules are parameterised by objects", "libraries::templates_become_one_rule_for_each_member"),
    _more("169440", "a mismatch cannot be printed", "a_refusal_names_node_and_condition"),
    _more("188223", "an unused argument of a pattern crashes a compile",
          "a_leaf_that_is_not_matched_is_refused_when_loaded"),
    _own("98778", "loading patterns prints graphs", "loading_prints_and_logs_nothing"),
    _more("vllm-58189 PR-196013", "a hidden filter by dtype skips custom ops",
          "no_dtype_is_left_out_unless_the_rule_says_so"),
    Report("197893", "x + 0 returns x itself",
           "boundaries::writes_after_the_call_reach_what_they_reached_before"),
    Report("174187 198131", "a copy is removed before its source is overwritten",
           "hostile_graphs::a_copy_stays_a_copy_if_its_source_is_written_to_later"),
    _own("104593 197539", "a convolution that is used twice is fused",
         "a_convolution_that_is_used_twice_keeps_its_weight"),
    Report("181136 192635 175156", "other random numbers under one seed",
           "exact_targets::random_ops_keep_their_order training::dropout_in_training_draws_the_same_numbers"),
    Report("187945 PR-87255 PR-90737", "facts, stack traces and module paths are lost",
           "surgery::new_nodes_have_facts_and_tell_where_they_come_from"),
    Report("executorch-4013 executorch-3860 executorch-22864 executorch-20893", "output_specs name a vanished node",
           "surgery::an_exported_program_keeps_its_output_names rewriting::an_exported_program_comes_back_as_one"),
    _own("executorch-7782", "removed placeholders break the signature", "placeholders_stay_when_nothing_reads_them"),
    _more("99686", "split and cat in another order are removed", "pieces_in_another_order_are_not_put_together"),
    _more("100670", "mm + mm that broadcasts is fused", "a_sum_that_broadcasts_is_not_fused"),
    Report("PR-140788", "unused pieces of a split crash", "guards::items_that_nobody_reads_belong_to_the_match"),
    Report("onnxscript-2012 onnxscript-1902 onnxscript-1385", "optional arguments need 2^n rules",
           "surgery::an_optional_that_is_absent_is_left_out"),
    _more("onnxscript-PR-2397 onnxscript-PR-2741", "commutativity makes 2^n rules",
          "every_order_of_a_gelu_is_one_rule"),
)  # fmt: skip
