!> capped_fortran: capped.c in Fortran. A particle is scattered until it hits the detector, at most CAP times; how likely a hit is
!> depends on the beam. A particle that never hits is lost, and another process is seen instead. The draws, their addresses and
!> the weights are those of capped.
program capped_fortran
   use ars
   use, intrinsic :: iso_fortran_env, only: real64, error_unit
   implicit none
   integer :: cap = 4, status
   character(16) :: text

   if (command_argument_count() > 0) then
      call get_command_argument(1, text)
      read (text, *, iostat=status) cap
      if (status /= 0 .or. cap < 1 .or. cap > 1000 .or. command_argument_count() > 1) then
         write (error_unit, '(a)') "capped_fortran: CAP must be a whole number from 1 to 1000", &
            "usage: capped_fortran [CAP]   (default 4)"
         stop 2
      end if
   end if
   call ars_run(model)

contains

   subroutine model()
      real(real64) :: beam, z, y
      logical :: hit
      beam = ars_sample("beam", ars_normal(0d0, 1d0))
      call scatter(beam, z, hit)
      if (.not. hit) z = ars_sample("other", ars_exponential(2d0))
      y = ars_observe("y", ars_normal(z, 0.5d0))
      call ars_result("beam_final", beam)
      call ars_result("hit", merge(1d0, 0d0, hit))
      if (ars_standalone()) print '(a,es24.16,a,l2,2(a,es24.16))', "beam", beam, " hit", hit, " z", z, " y", y
   end subroutine

   subroutine scatter(beam, z, hit)
      real(real64), intent(in) :: beam
      real(real64), intent(out) :: z
      logical, intent(out) :: hit
      type(ars_loop) :: loop
      integer :: i
      hit = .false.
      loop = ars_loop("scatter")
      do i = 1, cap
         call ars_loop_try(loop)
         z = ars_sample("z", ars_normal(beam, 1d0))
         hit = z > 0.5d0
         if (hit) exit
      end do
      if (hit) then
         call ars_loop_accept(loop)
      else
         call ars_loop_abandon(loop)
      end if
   end subroutine

end program
