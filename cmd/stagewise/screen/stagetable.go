package screen

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// The formats of the table, which fits into 80 columns, without and with a holdout.
const (
	head        = "                                error             loss\n"
	row         = "%6s  %-10s  %6s  %7s  %7s  %7s  %7s  %7s\n"
	headHoldout = "                                   error                    loss\n"
	rowHoldout  = "%6s %-10s %6s %7s %7s %7s %7s %7s %7s %7s\n"
)

// stageHead returns the head of the table.
func stageHead(heldOut bool) string {
	if heldOut {
		return headHoldout + fmt.Sprintf(rowHoldout, "stage", "link", "passes", "train", "holdout", "test", "train", "holdout", "test", "seconds")
	}
	return head + fmt.Sprintf(row, "stage", "link", "passes", "train", "test", "train", "test", "seconds")
}

// stageRows returns the row of a stage of so many, and after the last of a second or later member that of the mean of the members so far.
func stageRows(s *schemas.StageReport, stages int, heldOut bool) string {
	of := func(number, link, passes, seconds string, m *schemas.AverageReport) string {
		text := fmt.Sprintf(row, number, link, passes, Percent(&m.TrainError), Percent(m.TestError), loss(&m.TrainLoss), loss(m.TestLoss),
			seconds)
		if heldOut {
			text = fmt.Sprintf(rowHoldout, number, link, passes, Percent(&m.TrainError), Percent(m.HoldoutError), Percent(m.TestError),
				loss(&m.TrainLoss), loss(m.HoldoutLoss), loss(m.TestLoss), seconds)
		}
		return strings.TrimRight(text, " \n") + "\n"
	}
	text := of(fmt.Sprintf("%d/%d", s.Stage+1, stages), s.Link, fmt.Sprint(s.Passes), fmt.Sprintf("%.1f", s.Seconds), &schemas.AverageReport{
		TrainError: s.TrainError, HoldoutError: s.HoldoutError, TestError: s.TestError, TrainLoss: s.TrainLoss,
		HoldoutLoss: s.HoldoutLoss, TestLoss: s.TestLoss,
	})
	if a := s.Average; a != nil && a.Members > 1 {
		text += of("mean", fmt.Sprintf("of %d", a.Members), "", "", a)
	}
	return text
}
