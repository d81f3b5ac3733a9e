"""The fast search finds what fairseq's own search finds in the same model, and leaves the rest to it."""

import argparse

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.translation import TranslationConfig

from fairseq_rope.architectures import FAMILIES
from fairseq_rope.decoding import generator as module
from fairseq_rope.decoding.generator import FastSequenceGenerator
from fairseq_rope.decoding.task import FastTranslationTask

from ..commands import TRAIN, fairseq
from ..helpers import DEVICES, EOS, PAD, VOCABULARY, build, randomised, sentences, task

UNK = 3
CLOSE = dict(rtol=1e-5, atol=1e-5)
"""fp32 logits of the same numbers in products of another shape."""

PACKED = dict(rtol=1e-4, atol=5e-5)
"""The same from copies of the weights, whose products add up in another order; the scores are sums over the steps."""


def lively(arch="roformer_tiny", seed=0, words=None, **options):
    """A model whose hypotheses differ in words and lengths: large weights, and an end that is likely now and then."""
    options = dict(share_all_embeddings=False, **options)
    if words is None:
        model = build(arch, seed, **options)
    else:
        small = dict(encoder_embed_dim=32, decoder_embed_dim=32, max_source_positions=64, max_target_positions=64)
        namespace = argparse.Namespace(source_dictionary=words, target_dictionary=words)
        torch.manual_seed(seed)
        model = build_model(argparse.Namespace(arch=arch, **{**small, **options}), namespace).eval()
    torch.manual_seed(seed + 1)
    for name, part in model.named_modules():
        if name.endswith(".position"):
            randomised(part)
    with torch.no_grad():
        for embedding in (model.encoder.embed_tokens, model.decoder.embed_tokens):
            embedding.weight.normal_(std=0.5)
        model.decoder.output_projection.weight.normal_(std=0.4)
        model.decoder.output_projection.weight[EOS] *= 2.5
        for layer in model.decoder.layers:
            if layer.encoder_attn is not None:
                randomised(layer.encoder_attn)
    return model


def batch(lengths=(9, 3, 6, 1, 9), seed=1, device="cpu", types=VOCABULARY):
    """Sentences of these lengths, padded on the left."""
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for i, length in enumerate(lengths):
        tokens[i, -length:] = (sentences(1, length, seed=seed + i) - 4) % (types - 4) + 4
        tokens[i, -1] = EOS
    tokens = tokens.to(device)
    return {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}


@pytest.fixture
def fast_searches(monkeypatch):
    """How many searches the fast way has begun."""
    begun = []

    class Counted(module.Beams):
        def __init__(self, *args):
            begun.append(1)
            super().__init__(*args)

    monkeypatch.setattr(module, "Beams", Counted)
    return begun


def both(models, source, words=None, generate=None, strategy=None, packs=True, **options):
    """The hypotheses of the fast search and of fairseq's."""
    models = models if isinstance(models, list) else [models]
    words = task().target_dictionary if words is None else words
    found = []
    for cls in (FastSequenceGenerator, SequenceGenerator):
        torch.manual_seed(7)
        chosen = {**options, "search_strategy": strategy(words)} if strategy else options
        generator = cls(models, words, **chosen)
        generator.packs_weights = packs
        found.append(generator.generate(models, source, **(generate or {})))
    return found


def assert_same(actual, expected, tolerance=CLOSE):
    assert len(actual) == len(expected)
    for mine, stock in zip(actual, expected):
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in stock]
        for a, b in zip(mine, stock):
            assert a.keys() == b.keys()
            for name in a:
                assert (a[name].dtype, a[name].shape, a[name].device) == (b[name].dtype, b[name].shape, b[name].device)
                torch.testing.assert_close(a[name], b[name], **tolerance, msg=name)


def assert_varied(found):
    """The case says something: translations of different lengths, each of different words."""
    best = [hypotheses[0]["tokens"].tolist() for hypotheses in found]
    assert len({tuple(tokens) for tokens in best}) > len(best) // 2
    assert len({len(h["tokens"]) for hypotheses in found for h in hypotheses}) > 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_hypotheses_and_scores_equal_fairseqs_for_every_encoding(family, packs, device, fast_searches):
    model = lively(f"{family}_tiny", seed=1).to(device)
    actual, expected = both(model, batch(device=device), packs=packs, beam_size=4, max_len_b=15)
    assert_same(actual, expected, PACKED if packs else CLOSE)
    assert_varied(actual)
    assert fast_searches


OPTIONS = {
    "beam 1": dict(beam_size=1),
    "beam 4": dict(beam_size=4),
    "beam 7": dict(beam_size=7),
    "length penalty 0.6": dict(beam_size=4, len_penalty=0.6),
    "length penalty 0": dict(beam_size=4, len_penalty=0),
    "length penalty 3": dict(beam_size=4, len_penalty=3),
    "unnormalised": dict(beam_size=4, normalize_scores=False),
    "at least 6": dict(beam_size=4, min_len=6),
    "nothing is long enough": dict(beam_size=4, min_len=0),
    "exactly 5": dict(beam_size=4, min_len=5, max_len_b=5),
    "cut": dict(beam_size=4, max_len_a=0.2, max_len_b=2),
    "cut at once": dict(beam_size=3, max_len_b=1),
    "only the end": dict(beam_size=3, max_len_b=0, min_len=0),
    "an absolute limit": dict(beam_size=3, max_len=4),
    "no unknown words": dict(beam_size=4, unk_penalty=1000.0),
    "fewer unknown words": dict(beam_size=4, unk_penalty=1.5),
    "more unknown words": dict(beam_size=4, unk_penalty=-2.5),
    "unknown words and no end": dict(beam_size=4, unk_penalty=-1, min_len=4),
    "hot": dict(beam_size=4, temperature=2.0),
    "cold": dict(beam_size=4, temperature=0.4),
    "suppressed": dict(beam_size=4, tokens_to_suppress=("w0", "w1", "w5", "w7", "w11", "w20")),
    "all but two suppressed": dict(beam_size=4, tokens_to_suppress=tuple(f"w{i}" for i in range(2, 36))),
    "another end": dict(beam_size=3, eos=9),
    "everything": dict(beam_size=5, len_penalty=0.8, unk_penalty=-1.0, min_len=2, temperature=1.3, max_len_a=1.1),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(("seed", "packs"), [(0, True), (0, False), (1, True)])
def test_every_option_of_the_search_equals_fairseqs(name, seed, packs, device, fast_searches):
    model = lively(seed=seed).to(device)
    options = {"max_len_b": 12, **OPTIONS[name]}
    actual, expected = both(model, batch(device=device, seed=seed), packs=packs, **options)
    assert_same(actual, expected)
    assert all(hypotheses for hypotheses in actual)
    assert fast_searches
    tokens = torch.cat([h["tokens"] for hypotheses in actual for h in hypotheses])
    if name == "more unknown words":
        assert UNK in tokens
    if name == "no unknown words":
        assert UNK not in tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_at_the_maximum_length_the_end_follows_and_nothing_else(dtype):
    """Whatever is banned, penalised or suppressed."""
    model, words = lively().to(dtype=dtype), task().target_dictionary
    options = dict(beam_size=3, max_len_b=4, min_len=4, unk_penalty=1.5, tokens_to_suppress=("w3",))
    source = batch()["net_input"]
    generator = FastSequenceGenerator([model], words, **options)
    with torch.no_grad():
        encoder_out = model.encoder(**source)
        beams = module.Beams(generator, source["src_tokens"], generator.decoder_behind(encoder_out), EOS)
        beams.tokens[:, 1:5] = 7
        for step in range(5):
            log_probs, tokens = beams._best_continuations(step, 6)
            assert (log_probs.size(1) == 1) == (step == 4)
        logits = model.decoder(beams.tokens[:, :5], encoder_out)[0][:, -1]
    assert log_probs.shape == (5, 1) and log_probs.dtype == torch.float32
    assert tokens.tolist() == [[EOS]] * 5
    digits = 5e-2 if dtype == torch.bfloat16 else 1e-5  # of a full pass in place of a step with a cache
    torch.testing.assert_close(log_probs[:, 0], logits.float().log_softmax(-1)[:, EOS], rtol=digits, atol=digits)


def test_the_forced_end_ranks_no_other_tokens(monkeypatch):
    """One search to the maximum length takes its early return once, with the highest logit alone."""
    forced = []

    class Recorded(module.Beams):
        def _forced_end(self, logits):
            forced.append(len(logits))
            return super()._forced_end(logits)

    monkeypatch.setattr(module, "Beams", Recorded)
    model, words = lively(), task().target_dictionary
    FastSequenceGenerator([model], words, beam_size=3, min_len=5, max_len_b=5).generate([model], batch())
    assert forced == [15]  # 5 sentences, 3 beams


def test_sentences_that_end_at_different_steps_leave_the_batch():
    model = lively(seed=2)
    source = batch(tuple(1 + (5 * i) % 11 for i in range(24)))
    actual, expected = both(model, source, beam_size=3, max_len_b=30)
    assert_same(actual, expected)
    ends = [max(len(h["tokens"]) for h in hypotheses) for hypotheses in actual]
    assert len(set(ends)) > 4


@pytest.mark.parametrize("beam", [1, 4])
def test_a_sentence_alone_equals_itself_in_a_batch(beam):
    model, lengths = lively(), (9, 3, 6)
    together, _ = both(model, batch(lengths), beam_size=beam, max_len_b=12)
    for i, length in enumerate(lengths):
        alone, _ = both(model, batch((length,), seed=1 + i), beam_size=beam, max_len_b=12)
        assert_same(alone, [together[i]], dict(rtol=1e-4, atol=1e-4))


def test_outputs_beyond_the_room_of_the_cache():
    actual, expected = both(lively(max_target_positions=128), batch((5, 4)), beam_size=3, min_len=90, max_len_b=100)
    assert_same(actual, expected, dict(rtol=1e-4, atol=1e-4))  # sums of a hundred numbers
    assert max(len(h["tokens"]) for hypotheses in actual for h in hypotheses) > 90


def tiny_vocabulary(types):
    words = Dictionary()
    for i in range(types - len(words)):
        words.add_symbol(f"w{i}")
    return words


@pytest.mark.parametrize("types", [5, 6, 9])
@pytest.mark.parametrize("beam", [1, 2, 4, 8, 50])
@pytest.mark.parametrize("options", [{}, {"unk_penalty": 0.7}, {"min_len": 3}, {"min_len": 0}])
def test_beams_larger_than_the_vocabulary_equal_fairseqs(types, beam, options):
    words = tiny_vocabulary(types)
    # with positions in the values: else </s></s> is exactly as probable for each word as </s>
    model = lively("transformer_learned_tiny", words=words)
    actual, expected = both(model, batch((4, 2, 5), types=types), words, beam_size=beam, max_len_b=6, **options)
    assert_same(actual, expected)


@pytest.mark.parametrize("types,seed", [(5, 37), (6, 37), (9, 36)])
def test_a_hypothesis_that_fills_a_place_ends_only_once(types, seed):
    """With as many beams as words that may follow, one that has ended takes the last place and would end again."""
    words = tiny_vocabulary(types)
    model = lively("transformer_learned_tiny", words=words, seed=seed)
    source = batch((4, 2, 5), types=types, seed=seed)
    actual, expected = both(model, source, words, beam_size=types - 1, max_len_b=6, min_len=0)
    assert_same(actual, expected)


@pytest.mark.parametrize("bos", [0, 7])
def test_another_first_token_equals_fairseqs(bos):
    model = lively()
    actual, expected = both(model, batch(), beam_size=4, max_len_b=12, generate={"bos_token": bos})
    assert_same(actual, expected)
    other, _ = both(model, batch(), beam_size=4, max_len_b=12)
    assert [h[0]["score"] for h in other] != [h[0]["score"] for h in actual]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_finds_translations_as_good(dtype, device):
    """Ties and rounding may change which: scores of the best are those of fairseq's up to the precision."""
    model = lively().to(device, dtype)
    actual, expected = both(model, batch(device=device), beam_size=4, max_len_b=12)
    digits = 2e-2 if dtype == torch.bfloat16 else 4e-3
    for mine, stock in zip(actual, expected):
        torch.testing.assert_close(mine[0]["score"], stock[0]["score"], rtol=digits, atol=digits)
        assert mine[0]["score"].dtype == stock[0]["score"].dtype
        assert mine[0]["positional_scores"].dtype == stock[0]["positional_scores"].dtype


def test_a_generator_that_is_used_again_gives_the_same():
    model, words = lively(), task().target_dictionary
    generator = FastSequenceGenerator([model], words, beam_size=4, max_len_b=12)
    first = generator.generate([model], batch())
    other = generator.generate([model], batch((2, 8), seed=30))
    assert_same(generator.generate([model], batch()), first, dict(rtol=0, atol=0))
    assert_same(
        other, SequenceGenerator([model], words, beam_size=4, max_len_b=12).generate([model], batch((2, 8), 30))
    )


def test_what_is_found_is_not_changed_by_later_searches():
    model, words = lively(), task().target_dictionary
    generator = FastSequenceGenerator([model], words, beam_size=4, max_len_b=12)
    first = generator.generate([model], batch())
    kept = [[{name: value.clone() for name, value in h.items()} for h in hypotheses] for hypotheses in first]
    generator.generate([model], batch((2, 8), seed=30))
    assert_same(first, kept, dict(rtol=0, atol=0))


@pytest.mark.parametrize("options", [dict(decoder_normalize_before=True), dict(decoder_layers=1), dict(no_cross=1)])
def test_other_shapes_of_the_model_equal_fairseqs(options, fast_searches):
    no_cross = options.pop("no_cross", None)
    options = dict(no_cross_attention=True) if no_cross else options
    model = lively(**options)
    assert_same(*both(model, batch(), beam_size=3, max_len_b=9))
    assert bool(fast_searches) == (not no_cross)


def test_an_output_dimension_of_its_own_equals_fairseqs(fast_searches):
    assert_same(*both(lively(decoder_output_dim=16, decoder_input_dim=24), batch(), beam_size=3, max_len_b=9))
    assert fast_searches


# what goes fairseq's own way


STOCK_WAYS = {
    "sampling": dict(strategy=lambda words: search.Sampling(words, sampling_topk=5)),
    "diverse beams": dict(strategy=lambda words: search.DiverseBeamSearch(words, 2, 0.5)),
    "diverse siblings": dict(strategy=lambda words: search.DiverseSiblingsSearch(words, 0.5)),
    "length of the source": dict(
        strategy=lambda words: search.LengthConstrainedBeamSearch(words, 1, 0, 1, 0), match_source_len=True
    ),
    "no repeated n-grams": dict(no_repeat_ngram_size=2),
}


@pytest.mark.parametrize("name", STOCK_WAYS)
def test_other_searches_are_fairseqs_own(name, fast_searches):
    actual, expected = both(lively(), batch(), beam_size=4, max_len_b=10, **STOCK_WAYS[name])
    assert_same(actual, expected, dict(rtol=0, atol=0))
    assert not fast_searches


def test_retained_dropout_is_fairseqs_own(fast_searches):
    """fairseq drops other numbers in each beam; where nothing is dropped, the search is the fast one."""
    model = lively(dropout=0.3)
    plain, _ = both(model, batch(), beam_size=4, max_len_b=10)
    assert fast_searches.pop()
    model.make_generation_fast_(retain_dropout=True)
    actual, expected = both(model, batch(), beam_size=4, max_len_b=10)
    assert_same(actual, expected, dict(rtol=0, atol=0))
    assert [h[0]["score"] for h in actual] != [h[0]["score"] for h in plain] and not fast_searches


def test_prefixes_are_fairseqs_own(fast_searches):
    prefix = torch.tensor([[5, 6], [7, 8], [9, 10], [11, 12], [13, 14]])
    actual, expected = both(lively(), batch(), beam_size=4, max_len_b=10, generate={"prefix_tokens": prefix})
    assert_same(actual, expected, dict(rtol=0, atol=0))
    assert all(h[0]["tokens"][:2].tolist() == row for h, row in zip(actual, prefix.tolist()))
    assert not fast_searches


def test_constraints_are_fairseqs_own(fast_searches):
    constraints = torch.tensor([[1, 12, 0]] * 5)  # one constraint, of one word
    options = dict(strategy=lambda words: search.LexicallyConstrainedBeamSearch(words, "ordered"))
    found = both(lively(), batch(), beam_size=4, max_len_b=10, generate={"constraints": constraints}, **options)
    assert_same(*found, dict(rtol=0, atol=0))
    assert not fast_searches
    with pytest.raises(NotImplementedError, match="search method doesn't support them"):
        both(lively(), batch(), generate={"constraints": constraints})


def test_ensembles_are_fairseqs_own(fast_searches):
    found = both([lively(), lively(seed=5)], batch(), beam_size=4, max_len_b=10)
    assert_same(*found, dict(rtol=0, atol=0))
    assert not fast_searches


def test_fairseqs_own_model_is_fairseqs_own(fast_searches):
    found = both(lively("fairseq_transformer_tiny"), batch(), beam_size=4, max_len_b=10)
    assert_same(*found, dict(rtol=0, atol=0))
    assert not fast_searches


def test_a_language_model_is_fairseqs_own(fast_searches):
    class LanguageModel(torch.nn.Module):
        """Of equal probabilities."""

        def forward(self, tokens):
            return (torch.zeros(*tokens.shape, VOCABULARY),)

        def get_normalized_probs(self, out, log_probs, sample):
            return out[0].log_softmax(-1)

    found = both(lively(), batch(), beam_size=4, max_len_b=10, lm_model=LanguageModel())
    assert_same(*found, dict(rtol=0, atol=0))
    assert not fast_searches


def test_attention_that_is_asked_for_is_fairseqs_own(fast_searches):
    model = lively()
    model.make_generation_fast_(need_attn=True)
    actual, expected = both(model, batch(), beam_size=4, max_len_b=10)
    assert_same(actual, expected, dict(rtol=0, atol=0))
    assert actual[0][0]["attention"].numel()
    assert not fast_searches


# what cannot be searched


def test_a_model_that_gives_nan_is_refused_as_by_fairseq():
    model = lively()
    with torch.no_grad():
        model.decoder.output_projection.weight[20] = float("nan")
    with pytest.raises(RuntimeError, match="are the model's outputs NaN"):
        FastSequenceGenerator([model], task().target_dictionary, max_len_b=5).generate([model], batch())
    with pytest.raises(AssertionError):
        SequenceGenerator([model], task().target_dictionary, max_len_b=5).generate([model], batch())


@pytest.mark.parametrize("beam", [2, 4])
def test_hypotheses_that_turn_nan_are_left_as_by_fairseq(beam):
    """Behind one word that has no embedding."""
    model = lively()
    common, _ = both(model, batch(), beam_size=beam, max_len_b=10)
    word = int(common[0][-1]["tokens"][0])
    with torch.no_grad():
        model.decoder.embed_tokens.weight[word] = float("nan")
    actual, expected = both(model, batch(), beam_size=beam, max_len_b=10)
    assert_same(actual, expected)


def test_tokens_without_probability_are_never_chosen():
    """Logits of -inf, as of a vocabulary that is restricted."""
    model = lively()
    with torch.no_grad():
        model.decoder.layer_norm = torch.nn.LayerNorm(32)
        model.decoder.layer_norm.weight[0], model.decoder.layer_norm.bias[0] = 0, 1  # the first feature is 1
        model.decoder.output_projection.weight[10:38, 0] = -torch.inf
    actual, expected = both(model, batch(), beam_size=4, max_len_b=8)
    assert_same(actual, expected)
    tokens = torch.cat([h["tokens"] for hypotheses in actual for h in hypotheses])
    assert not ((tokens >= 10) & (tokens < 38)).any()


def test_a_minimum_above_the_maximum_is_refused():
    with pytest.raises(ValueError, match="--min-len 9 is above the maximum length of 5 tokens"):
        both(lively(), batch(), min_len=9, max_len_b=5)


# the task


def build_generator(model, **args):
    words = task().target_dictionary
    that = FastTranslationTask(TranslationConfig(), words, words)
    return that.build_generator([model], argparse.Namespace(**args))


def test_the_task_builds_the_search_that_the_arguments_name():
    model = lively()
    assert type(build_generator(model)) is FastSequenceGenerator
    assert type(build_generator(model, print_alignment="hard")) is SequenceGeneratorWithAlignment
    assert type(build_generator(model, score_reference=True)) is SequenceScorer
    sampling = build_generator(model, sampling=True)
    assert type(sampling.search) is search.Sampling and not sampling._is_plain()


def lines(output):
    """The hypotheses, their scores and the scores of their words, as printed."""
    return sorted(line for line in output.splitlines() if line[:2] in ("H-", "D-", "P-"))


@pytest.mark.parametrize(
    "options", [[], ["--beam", 1], ["--lenpen", 0.6, "--nbest", 3, "--fp16"], ["--unkpen", 2, "--sacrebleu"]]
)
@pytest.mark.slow
def test_generating_with_the_task_prints_what_translation_prints(data, trained, options):
    if "--fp16" in options and not torch.cuda.is_available():
        options = options[:-1]
    common = ["--path", trained / "checkpoint.pt", "--batch-size", 8, "--required-batch-size-multiple", 1]
    common += ["--max-len-b", 20, *options]
    fast, stock = (
        fairseq("generate", data, *common, "--task", name).stdout for name in ("fast_translation", "translation")
    )
    assert len(lines(stock)) >= 3 * 21
    for mine, other in zip(lines(fast), lines(stock)):
        (name, *numbers), (other_name, *others) = mine.split("\t"), other.split("\t")
        assert name == other_name
        if name.startswith("P-"):
            mine, other = ([float(x) for x in part[0].split()] for part in (numbers, others))
            assert mine == pytest.approx(other, abs=2e-4)  # printed with four digits
        else:
            assert numbers[1:] == others[1:] and float(numbers[0]) == pytest.approx(float(others[0]), abs=1e-5)


@pytest.mark.slow
def test_bleu_in_validation_equals_that_of_translation(data, tmp_path):
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 3, "max_len_b": 9}', "--eval-bleu-detok", "space"]
    common = ["--arch", "roformer_tiny", *TRAIN, *bleu, "--max-update", 4, "--dropout", 0]
    common += ["--required-batch-size-multiple", 1]  # with another one, translation drops sentences
    logs = {}
    for name in ("fast_translation", "translation"):
        done = fairseq("train", data, "--task", name, *common, "--save-dir", tmp_path / name)
        log = (done.stderr + done.stdout).splitlines()
        logs[name] = [line.split('"valid_bleu": ')[1].split(",")[0] for line in log if '"valid_bleu"' in line]
    assert logs["fast_translation"] == logs["translation"] != []
